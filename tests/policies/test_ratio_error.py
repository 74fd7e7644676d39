import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from tether.policies.ratio_error import (
    RatioCell,
    RatioError,
    factor_interval,
    measure,
    score_cells,
)

LOG_ODDS = st.lists(st.floats(-6, 6), min_size=1, max_size=25)


def hits_distribution(probabilities):
    """The exact distribution of the number of hits, one draw at a time."""
    distribution = np.ones(1)
    for probability in probabilities:
        distribution = np.convolve(distribution, [1 - probability, probability])
    return distribution


@given(LOG_ODDS, st.floats(-3, 3), st.sampled_from([0.01, 0.05, 0.2]))
def test_the_interval_misses_the_factor_as_rarely_as_stated(log_odds, log_factor, miss):
    log_odds, factor = np.array(log_odds), np.exp(log_factor)
    distribution = hits_distribution(expit(log_odds + log_factor))
    missed = 0.0
    for hits, probability in enumerate(distribution):
        low, high = factor_interval(log_odds, hits, miss)
        assert 0 <= low < high
        missed += probability * (factor < low * (1 - 1e-9) or factor > high * (1 + 1e-9))
    assert missed <= miss + 1e-9


def test_an_interval_with_less_confidence_misses_more_often():
    missed = 0.0
    for hits, probability in enumerate(hits_distribution(np.full(25, 0.5))):
        low, high = factor_interval(np.zeros(25), hits, 0.4)
        missed += probability * (low > 1 or high < 1)
    assert 0.1 < missed <= 0.4


def test_no_hits_or_only_hits_leave_one_end_open():
    assert factor_interval(np.zeros(20), 0, 0.05)[0] == 0
    assert factor_interval(np.zeros(20), 20, 0.05)[1] == np.inf


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=900))
def test_cells_cut_all_draws_by_their_ratio_and_keep_ties_together(log_ratio):
    log_ratio = np.array(log_ratio)
    cells = score_cells(log_ratio)
    assert np.array_equal(np.sum(cells, axis=0), np.ones(len(log_ratio)))
    values = [set(log_ratio[cell]) for cell in cells]
    assert sum(map(len, values)) == len(set(log_ratio))


def draws_of(shift, draws, rng):
    """Held-out draws of N(0, 1) and N(shift, 1), their true log ratios and arbitrary leaves."""
    actions = np.concatenate([rng.normal(size=draws), rng.normal(shift, size=2 * draws)])
    is_optimized = np.arange(3 * draws) >= draws
    return shift * actions - shift**2 / 2, is_optimized, (actions > 1).astype(int)


def test_the_true_ratio_lies_in_every_interval_with_the_stated_confidence():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(120):
        found = measure(*draws_of(1.0, 400, rng))
        held.append(all(cell.low <= 1 <= cell.high for cell in found.cells))
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 120)


def test_a_wrong_ratio_is_measured_as_wrong_and_a_right_one_as_nearly_right():
    log_ratio, is_optimized, leaf = draws_of(1.0, 20_000, np.random.default_rng(0))
    assert measure(log_ratio, is_optimized, leaf).factor < 1.3
    for wrong in (log_ratio + np.log(2), log_ratio - np.log(2)):
        assert 2 < measure(wrong, is_optimized, leaf).factor < 2.6
    constant = measure(np.zeros_like(log_ratio), is_optimized, leaf)
    assert max(cell.factor for cell in constant.cells if cell.cut_by == "ratio") < 1.05
    assert constant.factor > 2  # only the leaves show it


def test_the_mean_ratio_counts_too():
    cell = RatioCell("ratio", 100, 50, 0.0, 0.9, 1.1)
    assert RatioError((cell,), 0.5, 0.1, 0.95).factor == 2
    assert RatioError((cell,), 3.0, 0.1, 0.95).factor == 3
    assert RatioError((cell,), 1.0, 0.1, 0.95).factor == pytest.approx(1 / 0.9)


def test_it_prints_saves_and_loads(tmp_path):
    cells = (RatioCell("ratio", 9, 9, 0.3, 0.2, np.inf), RatioCell("features", 9, 4, 0.3, 0.8, 1.3))
    found = RatioError(cells, 1.2, 0.1, 0.95)
    assert found.factor == np.inf
    assert "95 % confidence, 2 cells" in str(found)
    found.save(tmp_path / "error.json")
    assert RatioError.load(tmp_path / "error.json") == found
