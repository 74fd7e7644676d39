"""Shortlists: positions by enumeration, exchangeable candidates, and the risk that is served."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import tether
from tests.fit import chi_square, fits
from tests.scale import scaled
from tether.policies import Picker, ShortlistRows

RNG, AssumptionWarning = np.random.default_rng, tether.AssumptionWarning


def draw(contexts, rng):
    return rng.normal(size=len(contexts))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 999), st.sampled_from(["clip", "mix"]), st.sampled_from([0.0, 0.5, 2.0]))
def test_the_pick_is_the_tethered_policy_over_positions(seed, family, temperature):
    rng = RNG(seed)
    rows = ShortlistRows(rng.normal(size=3), rng.normal(size=(3, 4)))
    picker = Picker(lambda x, c: x[:, None] * c, size=4, temperature=temperature)
    scores = rows.contexts[:, None] * rows.candidates
    best = (scores == scores.max(axis=1, keepdims=True)) * 1.0
    soft = np.exp((scores - scores.max(axis=1, keepdims=True)) / (temperature or 1))
    expected = best if temperature == 0 else soft / soft.sum(axis=1, keepdims=True)
    assert np.allclose(np.exp(picker.log_prob_all(rows)), expected)
    shortlist = tether.Shortlist(draw, picker, size=4)
    pick = shortlist.tethered(1.5, family=family).pick
    kernel = np.minimum(expected, 1.5 / 4) if family == "clip" else 0.25 + 1.5 * expected
    kernel /= kernel.sum(axis=1, keepdims=True)
    assert np.allclose(np.exp(pick.log_prob_all(rows)), kernel)
    index = np.array([0, 3, 2])
    assert np.allclose(np.exp(pick.log_prob(rows, index)), kernel[np.arange(3), index])


def test_a_policy_picks_by_its_ratio_to_the_safe_one():
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.0)
    rows = ShortlistRows(2, RNG(0).normal(size=(2, 5)))
    scores = tether.Shortlist(safe, optimized, size=5).required_picker.scores(rows)
    assert np.allclose(scores, rows.candidates - 0.5)
    alone = tether.Shortlist(draw, optimized, size=5).required_picker.scores(rows)
    assert np.allclose(alone, optimized.log_prob(10, rows.candidates.ravel()).reshape(2, 5))
    nothing = Picker(lambda x, c: np.where(c > 9, 0.0, -np.inf), size=5)
    assert np.allclose(np.exp(nothing.log_prob_all(rows)), 0.2)  # the safe policy's choice


def test_joined_candidates_are_exchangeable_and_served_ones_fit():
    rng = RNG(1)
    shortlist = tether.Shortlist(draw, lambda x, c: c, size=4)
    contexts = np.zeros(4000)
    actions = draw(contexts, rng)
    rows, index = shortlist.join(contexts, actions, rng)
    assert np.array_equal(rows.picked(index), actions)
    found = [chi_square(index, np.full(4, 0.25))]
    found += [stats.kstest(rows.candidates[:, k], "norm").pvalue for k in range(4)]
    safe = shortlist.tethered(0.0)
    found.append(stats.kstest(safe.sample(contexts, rng), "norm").pvalue)
    fits(found)
    assert shortlist.tethered(np.inf).sample(contexts, rng).mean() > 0.5


def test_more_candidates_than_probes_list_are_served_and_each_is_scored_once():
    x, calls = np.zeros(100), []
    shortlist = tether.Shortlist(draw, lambda x, c: calls.append(c.shape) or c, size=1001)
    actions = draw(x, RNG(0))
    found = tether.calibrate(shortlist.make_log(x, actions, actions > 9, RNG(1)), alpha=0.15)
    policy = shortlist.tethered(found)
    calls.clear()
    assert (policy.sample(x, RNG(2)).shape, calls) == ((100,), [(100, 1001)])


def losses_of(contexts, actions):
    """Large actions harm, in the contexts in which the policies are far apart."""
    return (contexts == 1) * np.clip((actions + 0.5) / 3, 0, 1)


def simulate(change, rows=3000, repeats=8, alpha=0.16):
    """The mean risk that is served, and its standard error."""
    rng = RNG(2)
    shortlist = tether.Shortlist(draw, lambda x, c: np.where(x == 1, 6.0, 0.3)[:, None] * c, size=4)
    new, risks = rng.integers(2, size=6000), []
    for _ in range(scaled(repeats)):
        contexts = rng.integers(2, size=rows)
        actions = draw(contexts, rng)
        log = shortlist.make_log(contexts, actions, losses_of(contexts, actions), rng)
        found = tether.calibrate(change(log), alpha=alpha)
        served = shortlist.tethered(found.beta).sample(new, rng)
        risks.append(losses_of(new, served).mean())
    return np.mean(risks), np.std(risks) / np.sqrt(len(risks))


def test_the_risk_that_is_served_holds_and_wrong_weights_break_it():
    risk, error = simulate(lambda log: log)
    assert 0.15 < risk <= 0.16 + 3 * error  # the safe policy's is 0.117
    wrong = [
        lambda log: tether.Log(log.loss, log.log_safe, log.log_optimized),  # one normalizer
        lambda log: tether.Log(  # the weights of other positions
            log.loss, log.log_safe, np.roll(log.log_optimized_all, 1, axis=1)[:, 0],
            log_safe_all=log.log_safe_all,
            log_optimized_all=np.roll(log.log_optimized_all, 1, axis=1),
        ),
    ]  # fmt: skip
    for change in wrong:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tether.AssumptionWarning)
            risk, error = simulate(change)
        assert risk > 0.16 + 3 * error


def log_of(draws, score=lambda x, c: c, actions=None, repeat=1):
    rng = RNG(4)
    contexts = np.repeat(rng.normal(size=200), repeat)
    actions = rng.normal(size=len(contexts)) if actions is None else actions(contexts)
    actions = np.repeat(actions[::repeat], repeat)
    return tether.Shortlist(draws, score, size=4).make_log(contexts, actions, 0 * actions, rng)


def copies(contexts, rng):
    return np.repeat(rng.normal(size=200), 3)


def high(contexts):
    return RNG(0).normal(1.5, size=200)


MISTAKES = {
    "scored alone": (ValueError, lambda: log_of(draw, lambda x, c: c - c.mean())),
    "independent draws": (ValueError, lambda: log_of(copies)),
    "one score per candidate": (ValueError, lambda: log_of(draw, lambda x, c: c[:, 0])),
    "safe policy draws": (ValueError, lambda: log_of(lambda x, rng: np.full(len(x), "a"))),
    "score": (ValueError, lambda: log_of(draw, lambda x, c: c * np.nan)),
    "size": (ValueError, lambda: tether.Shortlist(draw, size=1)),
    "temperature": (ValueError, lambda: tether.Shortlist(draw, temperature=-1)),
    "optimized": (TypeError, lambda: tether.Shortlist(draw, 3)),
    "no optimized policy": (ValueError, lambda: tether.Shortlist(draw).tethered(1.0)),
    "safe": (TypeError, lambda: tether.Shortlist(3)),
    "candidates": (ValueError, lambda: ShortlistRows(3, np.zeros((2, 4)))),
    "picks from 3": (ValueError, lambda: tether.Shortlist(draw, Picker(draw, 3), size=4)),
    "score higher": (AssumptionWarning, lambda: log_of(draw, actions=high)),
    "more than once": (AssumptionWarning, lambda: log_of(draw, repeat=2)),
}


@pytest.mark.parametrize("named", MISTAKES)
def test_mistakes_are_named(named):
    kind, mistake = MISTAKES[named]
    expected = pytest.warns if issubclass(kind, Warning) else pytest.raises
    with expected(kind, match=named):
        mistake()
