"""P-values against textbooks and simulation; the default; how tests are combined."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import tether
from tests.scale import scaled
from tests.thresholds import brute_force as exact
from tether.thresholds import ltt, p_values


@given(st.integers(1, 80), st.integers(0, 80), st.floats(0.01, 0.99))
@settings(max_examples=scaled(200), deadline=None)
def test_the_binomial_p_value_is_the_binomial_tail(count, losses, alpha):
    losses = min(losses, count)
    wanted = binom.cdf(losses, count, alpha) if losses < count else 1.0
    assert float(p_values.binomial(losses, count, alpha)) == pytest.approx(wanted, abs=1e-9)
    both = float(p_values.hoeffding_bentkus(losses, count, alpha))
    assert both >= min(wanted, 1.0) - 1e-9
    assert both <= min(math.e * wanted, 1.0) + 1e-9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.05, 0.5))
@settings(max_examples=scaled(100), deadline=None)
def test_betting_plays_one_loss_at_a_time(losses, alpha):
    found = p_values.betting(np.array(losses)[:, None], alpha, 0.1, len(losses))[0]
    assert found == pytest.approx(exact.betting(losses, alpha, 0.1, len(losses)))
    gaps = np.array([*losses, np.nan, np.nan])[:, None]  # items that a column leaves out
    assert p_values.betting(gaps, alpha, 0.1, len(losses))[0] == pytest.approx(found)


@pytest.mark.parametrize("kind", ["betting", "fixed", "hoeffding_bentkus"])
def test_p_values_are_super_uniform_at_the_edge_of_the_hypothesis(kind):
    rng, alpha, items = np.random.default_rng(4), 0.1, 150
    losses = rng.choice([0.0, 0.25, 1.0], p=[0.82, 0.1067, 0.0733], size=(items, scaled(6000)))
    alpha = 0.25 * 0.1067 + 0.0733
    if kind == "betting":
        found = p_values.betting(losses, alpha, 0.1, items)
    elif kind == "fixed":
        stakes = p_values.fixed_stakes(alpha, 0.1, items)
        found = 1 / np.mean([np.prod(1 - t * (losses - alpha), axis=0) for t in stakes], axis=0)
    else:
        found = p_values.hoeffding_bentkus(losses.sum(axis=0), items, alpha)
    for level in (0.05, 0.1, 0.3):
        error = 3 * math.sqrt(level * (1 - level) / losses.shape[1])
        assert (found <= level).mean() <= level + error
    assert (found <= 0.3).mean() > 0.02  # and not so large that nothing is ever shown


def answers(rng, items):
    """Labelled answers of eight claims, of which scores tell true from false fairly well."""
    scores = rng.random(items * 8)
    true = rng.random(items * 8) < 0.907 + 0.02 * scores
    return tether.Claims(scores, true, np.arange(0, items * 8 + 1, 8))


def test_the_default_keeps_much_where_hoeffding_bentkus_keeps_nothing():
    """400 labelled answers at 10 %: the shares of false claims vary little, and bets see it."""
    claims = answers(np.random.default_rng(0), 400)
    default = ltt(claims, alpha=0.1)
    assert default.kept.share > 0.9
    assert ltt(claims, alpha=0.1, pvalue="hoeffding_bentkus").kept.share < 0.6
    assert default.test == "betting p-values, fixed sequence"
    assert ltt(claims, alpha=0.6, loss="any_false").test.startswith("binomial")
    flags = np.zeros((300, 3), dtype=bool)
    assert ltt(flags, alpha=0.1).test.startswith("binomial")
    assert ltt(flags.astype(float), alpha=0.1).test.startswith("betting")
    with pytest.raises(ValueError, match="binomial"):
        ltt(claims, alpha=0.1, pvalue="binomial")


def test_many_items_are_tested_in_one_pass_and_show_more_than_a_bound_on_the_mean():
    rng = np.random.default_rng(1)
    scores = rng.random(24_000)
    claims = tether.Claims(scores, rng.random(24_000) < 0.7 + 0.3 * scores, np.arange(0, 24_001, 8))
    found = ltt(claims, alpha=0.1)
    assert found.threshold < ltt(claims, alpha=0.1, pvalue="hoeffding_bentkus").threshold
    assert 0.09 < found.risk < 0.1


def test_items_may_come_in_the_order_of_their_losses():
    """Shuffled by one permutation for all data, 80 % of these would certify the first threshold."""
    rng, wrong = np.random.default_rng(6), 0
    for _ in range(200):
        losses = np.column_stack((np.sort(rng.random(200) < 0.3)[::-1], rng.random(200) / 100))
        wrong += ltt(losses, alpha=0.299).threshold == 0
    assert wrong <= 20 + 3 * math.sqrt(18)


def test_bonferroni_needs_thresholds_and_takes_the_boldest_that_passes():
    losses = np.zeros((200, 4))
    losses[:, 1] = 0.3  # fails, between two that pass; safest last
    assert ltt(losses, alpha=0.1).threshold == 2
    assert ltt(losses, alpha=0.1, procedure="bonferroni").threshold == 0
    few = np.zeros((24, 4))
    assert ltt(few, alpha=0.1, pvalue="binomial").exists  # 0.9^24 = 0.080 ≤ 0.1
    assert not ltt(few, alpha=0.1, pvalue="binomial", procedure="bonferroni").exists
    with pytest.raises(ValueError, match="bonferroni"):
        ltt(answers(np.random.default_rng(2), 50), alpha=0.1, procedure="bonferroni")


def test_a_rate_among_the_selected_is_that_of_the_selected():
    rng = np.random.default_rng(5)
    scores = rng.random(3000)
    labels = rng.random(3000) < scores
    grid = np.linspace(0.05, 0.95, 91)
    found = ltt(tether.ScoredLabels(scores, labels), grid, alpha=0.2, loss="false_discovery")
    assert found.risk == pytest.approx((~labels[scores >= found.threshold]).mean())
    assert 0.1 < found.risk < 0.2
