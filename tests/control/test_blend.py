"""Optimized policies that never take some actions: blended with the safe policy, and served so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tests.control.example_logs import finite_world
from tether.control.blend import DEFAULT_BLEND, blend_scores, needs_blend
from tether.control.problem import pose

CONTEXTS, ACTIONS = 12, 3


def argmax_world(seed, rows=400):
    """A safe policy, an argmax of it shifted, and a log in which action 0 does harm."""
    rng = np.random.default_rng(seed)
    safe = 0.7 * rng.dirichlet(np.full(ACTIONS, 5.0), size=CONTEXTS) + 0.1
    argmax = np.eye(ACTIONS)[rng.integers(ACTIONS, size=CONTEXTS)]
    policies = [tether.Categorical.from_probabilities(table) for table in (safe, argmax)]
    contexts = rng.integers(CONTEXTS, size=rows)
    actions = policies[0].sample(contexts, rng)
    losses = ((actions == 0) & (rng.random(rows) < 0.3)).astype(float)
    return policies, contexts, actions, losses, rng


@given(st.floats(-30, 0), st.floats(-30, 0), st.floats(0.001, 0.999))
def test_scores_are_those_of_the_mixture(log_optimized, log_safe, blend):
    expected = (1 - blend) * np.exp(log_optimized) + blend * np.exp(log_safe)
    found = blend_scores(np.array([log_optimized]), np.array([log_safe]), blend)
    assert np.exp(found[0]) == pytest.approx(expected, rel=1e-9)


def test_scores_at_the_ends():
    log_safe = np.array([-1.0, -np.inf, -2.0])
    log_optimized = np.array([-np.inf, -1.0, -2.0])
    assert blend_scores(log_optimized, log_safe, 0.0) is log_optimized
    blended = blend_scores(log_optimized, log_safe, 0.25)
    assert np.exp(blended) == pytest.approx([0.25 / np.e, 0.75 / np.e, np.exp(-2)])


def test_an_argmax_policy_has_betas_near_the_safe_policy_only_if_blended():
    """Without a blend clip keeps the zeros at every beta: its first policy is the argmax itself."""
    (safe, argmax), contexts, actions, _, _ = argmax_world(0)
    losses = 0.5 * (argmax.log_prob(contexts, actions) == 0)  # what the argmax takes does harm
    log = tether.make_log(safe, argmax, contexts, actions, losses)
    alpha = losses.mean() * 1.1
    without = tether.calibrate(log, alpha=alpha, blend=0)
    assert (without.exists, without.blend) == (False, 0.0)
    found = tether.calibrate(log, alpha=alpha)
    assert found.exists
    assert found.blend == DEFAULT_BLEND == 0.01
    assert any("0.01 of the safe policy is blended into it" in text for text in found.warnings)
    assert "blend" in found.summary()
    for blend in (0.2, 0.01):  # below β = δ nothing is clipped: the safe policy itself
        problem = pose(log, None, tether.Clip(), "empirical", blend)
        rows, _ = problem.log_weights(np.log(blend))
        assert rows == pytest.approx(np.zeros(len(log)), abs=1e-9)
        distance = [
            np.abs(np.expm1(problem.log_weights(np.log(blend) + step)[0])).max()
            for step in (3.0, 1.0, 0.3, 0.1)
        ]
        assert distance == sorted(distance, reverse=True)


@pytest.mark.parametrize("family", ["clip", "budgeted_clip(3)"])
def test_a_blended_log_is_the_log_of_blended_policies(family):
    for seed in range(4):
        (safe, argmax), contexts, actions, losses, _ = argmax_world(seed)
        blended = tether.Mixture.blend(argmax, safe, 0.05)
        log, other = (
            tether.make_log(safe, each, contexts, actions, losses) for each in (argmax, blended)
        )
        found = tether.calibrate(log, alpha=0.15, family=family, blend=0.05)
        expected = tether.calibrate(other, alpha=0.15, family=family, blend=0.05)
        assert found._problem.log.log_optimized == pytest.approx(other.log_optimized)
        assert found._problem.log.log_optimized_all == pytest.approx(other.log_optimized_all)
        assert (found.blend, expected.blend) == (0.05, 0.0)
        assert found.log_beta == pytest.approx(expected.log_beta, rel=1e-9)
        assert found.risk == pytest.approx(expected.risk)
        assert found.promise == pytest.approx(expected.promise)


def test_the_blend_is_what_is_served():
    (safe, argmax), contexts, actions, losses, rng = argmax_world(1)
    log = tether.make_log(safe, argmax, contexts, actions, losses)
    found = tether.calibrate(log, alpha=0.15, blend=0.05)
    assert found.beta > 0
    served = tether.Tethered(safe, argmax, found)
    blended = tether.Mixture.blend(argmax, safe, 0.05)
    expected = tether.Tethered(safe, blended, found.beta)
    every = np.arange(CONTEXTS)
    assert served.log_prob_all(every) == pytest.approx(expected.log_prob_all(every))
    kernel = np.minimum(
        np.exp(blended.log_prob_all(every)), found.beta * np.exp(safe.log_prob_all(every))
    )
    kernel /= kernel.sum(axis=1, keepdims=True)
    assert np.exp(served.log_prob_all(every)) == pytest.approx(kernel)
    drawn = np.bincount(served.sample(np.zeros(20_000, dtype=int), rng), minlength=ACTIONS)
    assert drawn / 20_000 == pytest.approx(kernel[0], abs=0.02)


def test_the_risk_of_what_is_served_is_what_was_weighted():
    """With all contexts and actions in the log, the weighted mean of a loss is the true risk."""
    (safe, argmax), *_ = argmax_world(2)
    every = np.repeat(np.arange(CONTEXTS), ACTIONS)
    actions = np.tile(np.arange(ACTIONS), CONTEXTS)
    loss = np.random.default_rng(3).random((CONTEXTS, ACTIONS))
    log = tether.make_log(safe, argmax, every, actions, loss.ravel())
    found = tether.calibrate(log, alpha=0.9, blend=0.1)
    policy = tether.Tethered(safe, tether.Mixture.blend(argmax, safe, 0.1), 2.0)
    rows, _ = found._problem.log_weights(np.log(2.0))
    weighted = (np.exp(rows + log.log_safe) * loss.ravel()).sum() / CONTEXTS
    true = (np.exp(policy.log_prob_all(np.arange(CONTEXTS))) * loss).sum() / CONTEXTS
    assert weighted == pytest.approx(true)


def test_draws_are_scored_by_the_blend():
    """Without contexts and with them, the log and the proposals are blended alike."""
    rng = np.random.default_rng(4)
    n, each = 30, 4
    ratio = np.where(rng.random(n) < 0.4, -np.inf, 0.5)
    place = np.repeat(np.arange(n), each)
    source = np.tile(["safe", "safe", "optimized", "optimized"], n)
    drawn = np.where((source == "safe") & (rng.random(n * each) < 0.4), -np.inf, 0.5)
    for contexts in (False, True):
        log = tether.Log(
            np.zeros(n), np.zeros(n), ratio, context=np.arange(n) if contexts else None
        )
        proposals = tether.Proposals(
            np.zeros(n * each), drawn, context=place if contexts else None, source=source
        )
        problem = pose(log, proposals, tether.Clip(), "empirical", 0.2)
        assert problem.blend == 0.2
        for values, blended in (
            (ratio, problem.log.log_optimized),
            (drawn, problem.draws.log_optimized),
        ):
            assert np.exp(blended) == pytest.approx(0.8 * np.exp(values) + 0.2)
        assert problem.given_log is log
        assert problem.given_proposals is proposals
        low = problem.log_weights(np.log(0.2))[0]
        assert low - low[0] == pytest.approx(np.zeros(n), abs=1e-9)  # the safe policy


def test_only_what_needs_a_blend_is_blended():
    log, *_ = finite_world(np.random.default_rng(5))
    assert pose(log, None, tether.Clip(), "empirical", 0.3).blend == 0.0
    (safe, argmax), contexts, actions, losses, _ = argmax_world(3)
    zeros = tether.make_log(safe, argmax, contexts, actions, losses)
    assert pose(zeros, None, tether.Mix(), "empirical", 0.3).blend == 0.0
    assert pose(zeros, None, tether.Clip(), "empirical", 0.3).blend == 0.3
    draws = pose(log, None, tether.Clip(), "empirical").draws
    assert not needs_blend(log, draws, tether.Clip())
    # An action that neither policy takes does not count.
    with np.errstate(divide="ignore"):
        table = np.log([[0.5, 0.5, 0.0]] * 4)
    neither = tether.Log(
        np.zeros(4), table[:, 0], table[:, 0], log_safe_all=table, log_optimized_all=table
    )
    assert tether.calibrate(neither, alpha=0.3).blend == 0.0


@pytest.mark.parametrize("blend", [-0.1, 1.0, 2, float("nan")])
def test_a_blend_that_is_no_share_is_refused(blend):
    log, *_ = finite_world(np.random.default_rng(6))
    with pytest.raises(ValueError, match="blend must be at least 0 and below 1"):
        tether.calibrate(log, alpha=0.3, blend=blend)
