"""Logs and proposals of policies, propensities, and ratios that are estimated from draws."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import tether
from tether.policies.ratio import factor_interval

RNG = np.random.default_rng
NAMES = np.array(["call", "mail", "wait"])


def world(seed=0, n=600, contexts=4):
    rng = RNG(seed)
    tables = rng.dirichlet(np.ones(3) * 3, size=(2, contexts))
    safe, optimized = (tether.Categorical.from_probabilities(each, NAMES) for each in tables)
    x = rng.integers(contexts, size=n)
    actions = safe.sample(x, rng)
    losses = (rng.random(n) < 0.1 + 0.2 * (actions == "mail")).astype(float)
    return safe, optimized, x, actions, losses, tables


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 999))
def test_scores_and_tables_are_those_of_the_policies(seed):
    safe, optimized, x, actions, losses, tables = world(seed)
    place = np.searchsorted(NAMES, actions)
    log = tether.make_log(safe, optimized, x, actions, losses, rewards=-losses)
    assert np.allclose(np.exp(log.log_safe), tables[0, x, place])
    assert np.allclose(np.exp(log.log_optimized_all), tables[1, x])
    assert log.contextual
    assert np.array_equal(log.reward, -losses)
    assert tether.make_proposals(safe, optimized, x, 4, RNG(0)) is None  # tables are exact
    acted = tether.Mixture([safe, optimized], [2, 1])
    mixed = tether.make_log(safe, optimized, x, actions, losses, logged_by=acted, safe_share=2 / 3)
    expected = (2 * tables[0, x] + tables[1, x]) / 3
    assert np.allclose(np.exp(mixed.log_mix_all), expected)
    assert np.allclose(np.exp(mixed.log_mix), expected[np.arange(len(x)), place])
    alone = tether.make_log(
        tether.Categorical.from_probabilities(tables[0, 0], NAMES),
        tether.Categorical.from_probabilities(tables[1, 0], NAMES),
        None, actions[x == 0], losses[x == 0],
    )  # fmt: skip
    assert not alone.contextual


@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray, csr_array])
def test_contexts_of_every_kind_are_labelled_by_their_content(kind):
    safe, optimized, x, actions, losses, tables = world()
    contexts = kind(np.eye(4)[x])

    def row(contexts):
        dense = contexts.toarray() if kind is csr_array else np.asarray(contexts)
        return dense.argmax(axis=1)

    policies = [
        tether.Categorical.from_probabilities(lambda c, t=table: t[row(c)], NAMES)
        for table in tables
    ]
    log = tether.make_log(*policies, contexts, actions, losses)
    assert len(np.unique(log.context)) == 4
    same = tether.make_log(safe, optimized, x, actions, losses)
    assert np.allclose(log.log_safe_all, same.log_safe_all)
    found = tether.calibrate(log, alpha=0.2)
    assert found.log_beta == tether.calibrate(same, alpha=0.2).log_beta
    assert tether.Tethered(*policies, found).sample(contexts, RNG(1)).shape == (600,)


def test_every_row_has_draws_of_its_own():
    """Contexts row by row: as many draws as rows need, in their order, scored under both."""
    safe = tether.Gaussian(lambda x: 0 * x)
    optimized = tether.Gaussian(lambda x: x)
    contexts = np.array([1.0, 2.0, 1.0, 1.0])
    proposals = tether.make_proposals(safe, optimized, contexts, 16, RNG(0))
    assert len(proposals) == 2 * 16 * 4
    assert proposals.from_safe.sum() == 64
    label = tether.make_log(safe, optimized, contexts, np.zeros(4), np.zeros(4)).context
    assert np.array_equal(proposals.context, np.tile(np.repeat(label, 16), 2))
    drawn = np.repeat(contexts, 16)
    actions = safe.sample(drawn, RNG(0))
    assert np.allclose(proposals.log_optimized[:64], optimized.log_prob(drawn, actions))
    rng = RNG(1)
    x = rng.integers(3, size=400).astype(float)
    actions = safe.sample(x, rng)
    log = tether.make_log(safe, optimized, x, actions, actions > 2.0)
    proposals = tether.make_proposals(safe, optimized, x, 16, rng)
    for options in ({"alpha": 0.1}, {"promise": 0.1}, {"alpha": 0.1, "confidence": 0.9}):
        found = tether.calibrate(log, proposals, **options)
        assert found.family == "budgeted_clip(16)"
        assert found.exists
    both = tether.Gaussian(0.0), tether.Gaussian(1.0)
    acted = tether.Mixture(both, [1, 1])
    mixed = tether.make_proposals(*both, None, 10, rng, logged_by=acted)
    assert np.allclose(mixed.log_mix, np.logaddexp(mixed.log_safe, mixed.log_optimized) - np.log(2))


def test_a_bandit_log_needs_no_safe_policy():
    _safe, optimized, x, actions, losses, tables = world(n=2000)
    shown = tables[0, x, np.searchsorted(NAMES, actions)]
    floor, rows = float(tables[0].min()), (optimized, x, actions, losses)
    log = tether.make_log(None, *rows, propensities=shown, min_propensity=floor)
    assert np.allclose(np.exp(log.log_safe), shown)
    assert log.max_ratio == pytest.approx(1 / floor)
    mix = tether.calibrate(log, alpha=0.22, family="mix")
    assert (mix.exists, log.has_tables) == (True, False)
    two = tether.Categorical.from_probabilities([[0.3, 0.7], [0.6, 0.4]])
    taken, contexts = RNG(1).integers(2, size=500), RNG(2).integers(2, size=500)
    log = tether.make_log(None, two, contexts, taken, np.zeros(500), propensities=np.full(500, 0.5))
    assert np.allclose(np.exp(log.log_safe_all), 0.5)
    with pytest.raises(TypeError, match="safe must be a policy"):
        tether.Tethered(None, optimized, mix)


def errors():
    safe, optimized, x, actions, losses, tables = world(n=2000)
    shown = tables[0, x, np.searchsorted(NAMES, actions)]
    rest = (x, actions, losses)
    make, off = tether.make_log, shown.copy()
    off[5] *= 1.5
    never = tether.Categorical.from_probabilities([0.5, 0.5, 0.0], NAMES)
    percent, logs = {"propensities": 100 * shown}, {"propensities": np.log(shown)}
    return {
        "loss has 3 rows": lambda: make(safe, optimized, x, actions, [0, 1, 0]),
        "safe is None": lambda: make(None, optimized, *rest),
        "look like log-probabilities": lambda: make(None, optimized, *rest, **logs),
        "40 % is 0.4": lambda: make(None, optimized, *rest, **percent),
        "row 5": lambda: make(safe, optimized, *rest, propensities=off),
        "depends on more": lambda: make(None, optimized, *rest, propensities=off),
        "logged_by": lambda: make(safe, optimized, *rest, propensities=shown, logged_by=safe),
        "min_propensity": lambda: make(
            None, optimized, *rest, propensities=shown, min_propensity=0.4
        ),
        "0.2525": lambda: make(
            *(None, never, 1, ["call"], [0.0]), propensities=[0.5], min_propensity=0.4
        ),
        "max_ratio": lambda: make(
            None, tether.Gaussian(0.0), None, [0.1], [0.0], propensities=[0.3], min_propensity=0.1
        ),
        "took this action": lambda: make(never, optimized, *rest),
        "'CALL'": lambda: make(safe, optimized, x, np.char.upper(actions), losses),
        "draws": lambda: tether.make_proposals(safe, optimized, None, 0, RNG(0)),
    }  # fmt: skip


@pytest.mark.parametrize("named", errors())
def test_errors_say_what_is_wrong(named):
    with pytest.raises((TypeError, ValueError), match=named):
        errors()[named]()


def drawn(shift):
    return lambda contexts, rng: contexts + shift + rng.normal(size=len(contexts))


def test_an_estimated_ratio_is_found_measured_and_served():
    rng = RNG(0)
    ratio = tether.estimate_ratio(drawn(0.0), drawn(1.0), rng.normal(size=20_000), rng)
    x = rng.normal(size=2_000)
    actions = drawn(0.0)(x, rng)
    assert np.abs(ratio.log_ratio(x, actions) - (actions - x - 0.5)).mean() < 0.05
    assert 1 < ratio.error < 1.7
    log = tether.make_log(ratio.safe, ratio.optimized, x, actions, actions > x + 2)
    assert log.warnings == (ratio.optimized.approximate,)
    assert log.ratio_error == ratio.error
    proposals = tether.make_proposals(ratio.safe, ratio.optimized, x, 8, rng)
    found = tether.calibrate(log, proposals, alpha=0.2)
    assert found.binding.ratio_error >= ratio.error
    assert any("approximate" in each for each in found.warnings)
    assert tether.Tethered(ratio.safe, ratio.optimized, found).sample(x, rng).shape == (2_000,)


def test_estimates_depend_on_the_generator_alone_and_show_when_they_are_wrong():
    points = np.zeros(5), np.linspace(-1, 2, 5)
    policies = drawn(0.0), drawn(1.0)

    def estimated(rows, **options):
        return tether.estimate_ratio(*policies, np.zeros(rows), RNG(0), **options)

    for classifier in (None, RandomForestClassifier(5)):
        first, again = (estimated(400, classifier=classifier).log_ratio(*points) for _ in range(2))
        assert np.array_equal(first, again)
    constant = estimated(4_000, classifier=DummyClassifier())
    assert np.allclose(constant.log_ratio(*points), 0, atol=0.01)
    assert constant.error > 2  # all ratios are 1: a tree sees where that is wrong
    linear = tether.estimate_ratio(
        lambda n, rng: rng.normal(size=n), lambda n, rng: rng.normal(size=n) / 3, 8_000, RNG(0),
        classifier=LogisticRegression(),
    )  # fmt: skip
    assert linear.error > 2
    sparse = estimated(2_000, features=lambda x, a: csr_array(a[:, None]))
    assert np.allclose(sparse.log_ratio(*points), points[1] - 0.5, atol=0.3)
    with pytest.raises(ValueError, match="at least 100"):
        estimated(20)
    with pytest.raises(TypeError, match="features"):
        estimated(400, features=lambda x, a: a.astype(str))


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.floats(-6, 6), min_size=1, max_size=20),
    st.floats(-3, 3),
    st.sampled_from([0.01, 0.2]),
)
def test_the_interval_misses_the_factor_as_rarely_as_stated(log_odds, log_factor, miss):
    """By the exact distribution of the number of hits."""
    log_odds, factor, exact = np.array(log_odds), np.exp(log_factor), np.ones(1)
    for p in expit(log_odds + log_factor):
        exact = np.convolve(exact, [1 - p, p])
    missed = 0.0
    for hits, probability in enumerate(exact):
        low, high = factor_interval(log_odds, hits, miss)
        missed += probability * (factor < low * (1 - 1e-9) or factor > high * (1 + 1e-9))
    assert missed <= miss + 1e-9
