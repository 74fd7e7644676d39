"""Logs and proposals made from policies."""

import numpy as np
import pytest

import tether

SAFE, OPTIMIZED = tether.Gaussian(0.0), tether.Gaussian(1.0)


def test_without_contexts_the_log_is_marginal():
    rng = np.random.default_rng(0)
    actions = SAFE.sample(50, rng)
    for contexts in (None, 50):
        log = tether.make_log(SAFE, OPTIMIZED, contexts, actions, actions > 1)
        assert not log.contextual
        assert np.array_equal(log.log_safe, SAFE.log_prob(50, actions))
        assert np.array_equal(log.log_optimized, OPTIMIZED.log_prob(50, actions))
    for contexts in (None, 7):
        proposals = tether.make_proposals(SAFE, OPTIMIZED, contexts, 30, rng)
        assert proposals.context is None
        assert proposals.from_safe.sum() == 30 * (contexts or 1)
        assert len(proposals) == 60 * (contexts or 1)
    pool = tether.Pool.uniform(4), tether.Pool(np.arange(4.0))
    log = tether.make_log(*pool, None, [0, 3, 3], [0, 1, 1])
    assert not log.contextual
    assert len(tether.make_proposals(*pool, None, 30, rng)) == 60


def test_with_contexts_every_context_has_its_own_draws():
    rng = np.random.default_rng(1)
    safe, optimized = tether.Gaussian(lambda x: 0 * x), tether.Gaussian(lambda x: x)
    contexts = rng.normal(size=20)
    actions = safe.sample(contexts, rng)
    log = tether.make_log(safe, optimized, contexts, actions, actions > 1)
    assert len(np.unique(log.context)) == 20
    proposals = tether.make_proposals(safe, optimized, contexts, 3, rng)
    assert len(proposals) == 20 * 3 * 2
    for half in (proposals.from_safe, ~proposals.from_safe):
        known, counts = np.unique(proposals.context[half], return_counts=True)
        assert np.array_equal(known, np.unique(log.context))
        assert (counts == 3).all()
    # Each draw is scored in its own context: log ratio = x·a − x²/2.
    ratio = proposals.log_optimized - proposals.log_safe
    order = np.argsort(log.context)
    x = contexts[order[np.searchsorted(log.context[order], proposals.context)]]
    action = (ratio + x**2 / 2) / x
    assert np.allclose(proposals.log_safe, SAFE.log_prob(None, action))


@pytest.mark.filterwarnings("ignore:30 of 30 rows:tether.AssumptionWarning")
def test_finite_actions_are_scored_in_the_log_and_need_no_proposals():
    rng = np.random.default_rng(2)
    safe, optimized = (
        tether.Categorical.from_logits(table, actions=["a", "b", "c"])
        for table in rng.normal(size=(2, 4, 3))
    )
    contexts = rng.integers(4, size=30)
    actions = safe.sample(contexts, rng)
    log = tether.make_log(safe, optimized, contexts, actions, actions == "c")
    assert np.allclose(log.log_safe_all, safe.log_prob_all(contexts))
    assert np.allclose(log.log_optimized, optimized.log_prob(contexts, actions))
    assert tether.make_proposals(safe, optimized, contexts, 5, rng) is None
    # Two policies that ignore contexts are listed all the same.
    log = tether.make_log(
        tether.Pool.uniform(3),
        tether.Pool(np.arange(3.0)),
        contexts,
        np.arange(30) % 3,
        np.ones(30),
    )
    assert log.log_safe_all.shape == (30, 3)


@pytest.mark.parametrize("contextual", [False, True])
def test_a_log_of_several_rounds_has_the_density_of_their_mixture(contextual):
    rng = np.random.default_rng(3)
    safe, optimized = (
        tether.Categorical.from_logits(table) for table in rng.normal(size=(2, 4, 3))
    )
    if not contextual:
        safe, optimized = tether.Pool.uniform(3), tether.Pool([0.0, 1.0, 2.0])
    first = tether.Tethered(safe, optimized, 0.7)
    deployed = tether.Mixture([safe, first], [20, 10])
    contexts = rng.integers(4, size=30) if contextual else 30
    actions = deployed.sample(contexts, rng)
    log = tether.make_log(
        safe, optimized, contexts, actions, actions == 2, logged_by=deployed, safe_share=2 / 3
    )
    assert np.allclose(log.log_mix, deployed.log_prob(contexts, actions))
    assert (log.log_mix_all is not None) == contextual
    proposals = tether.make_proposals(safe, optimized, contexts, 50, rng, logged_by=deployed)
    assert (proposals is None) == contextual
    found = tether.calibrate(log, proposals, alpha=0.6)
    assert found.beta > 0


def test_invalid_arguments_are_refused():
    rng = np.random.default_rng(4)
    with pytest.raises(ValueError, match="actions has 3 rows but contexts has 2"):
        tether.make_log(SAFE, OPTIMIZED, np.zeros(2), np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="losses has 2 rows but actions has 3"):
        tether.make_log(SAFE, OPTIMIZED, None, np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="draws must be an integer"):
        tether.make_proposals(SAFE, OPTIMIZED, None, 0, rng)
    never = tether.Categorical.from_probabilities([0.0, 1.0])
    with pytest.raises(ValueError, match=r"the safe policy's log_prob\[0\] is -inf"):
        tether.make_log(never, tether.Pool.uniform(2), None, [0, 1], [0, 1])


def test_a_log_by_a_policy_without_tables_needs_proposals():
    """Two finite policies, logged by one that does not list its actions: proposals are needed."""
    rng = np.random.default_rng(5)
    safe, optimized = (
        tether.Categorical.from_logits(table) for table in rng.normal(size=(2, 4, 3))
    )
    logged_by = tether.FunctionPolicy(safe.sample, safe.log_prob)
    contexts = rng.integers(4, size=30)
    actions = safe.sample(contexts, rng)
    log = tether.make_log(safe, optimized, contexts, actions, actions == 2, logged_by=logged_by)
    assert log.log_safe_all is None
    proposals = tether.make_proposals(safe, optimized, contexts, 50, rng, logged_by=logged_by)
    assert len(proposals) == 30 * 50 * 2
    assert tether.calibrate(log, proposals, alpha=0.6).beta > 0
    bad = tether.FunctionPolicy(safe.sample, lambda x, a: np.full(len(a), np.nan))
    with pytest.raises(ValueError, match=r"the logged_by policy's log_prob\[0\] is nan"):
        tether.make_log(safe, optimized, contexts, actions, actions == 2, logged_by=bad)
    with pytest.raises(ValueError, match=r"the logged_by policy's log_prob\[0\] is nan"):
        tether.make_proposals(safe, optimized, contexts, 5, rng, logged_by=bad)


def test_proposals_are_matched_by_the_content_of_their_contexts():
    """Permuted and larger sets of contexts match; missing contexts are an error."""
    rng = np.random.default_rng(6)
    safe, optimized = tether.Gaussian(lambda x: 0 * x), tether.Gaussian(lambda x: x)
    contexts = rng.uniform(0.5, 2.0, size=100)
    actions = safe.sample(contexts, rng)
    log = tether.make_log(safe, optimized, contexts, actions, actions > 1.5)

    def beta_with_proposals_in(proposal_contexts):
        proposals = tether.make_proposals(
            safe, optimized, proposal_contexts, 400, np.random.default_rng(7)
        )
        return tether.calibrate(log, proposals, alpha=0.15).beta

    same = beta_with_proposals_in(contexts)
    assert beta_with_proposals_in(np.sort(contexts)) == pytest.approx(same, rel=0.1)
    assert beta_with_proposals_in(np.append(rng.uniform(0.5, 2, 20), contexts)) == pytest.approx(
        same, rel=0.1
    )
    with pytest.raises(ValueError, match="proposals has no draw in context"):
        beta_with_proposals_in(contexts + 1)
    with pytest.raises(ValueError, match=r"no draw in context .* \(1 such context"):
        beta_with_proposals_in(contexts[1:])


def test_equal_contexts_share_their_draws():
    rng = np.random.default_rng(8)
    safe, optimized = tether.Gaussian(lambda x: 0 * x), tether.Gaussian(lambda x: x)
    contexts = np.repeat([0.5, 1.0], 50)
    actions = safe.sample(contexts, rng)
    log = tether.make_log(safe, optimized, contexts, actions, actions > 1.5)
    assert len(np.unique(log.context)) == 2
    proposals = tether.make_proposals(safe, optimized, [0.5, 1.0], 100, rng)
    assert tether.calibrate(log, proposals, alpha=0.15).beta > 0


def test_every_kind_of_log_keeps_its_rewards():
    rng = np.random.default_rng(0)
    three = tether.Categorical.from_probabilities([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    two = tether.Categorical.from_probabilities([[0.6, 0.4], [0.1, 0.9]])
    context, action, reward = rng.integers(2, size=40), rng.integers(2, size=40), np.arange(40.0)
    half, third = np.full(40, 0.5), np.full(40, 1 / 3)
    bell = tether.Gaussian(0.0)
    logs = [
        tether.make_log(bell, bell, None, reward, reward * 0, rewards=reward),
        tether.make_log(three, three, context, three.sample(context, rng), action, rewards=reward),
        tether.make_log(None, two, context, action, action, rewards=reward, propensities=half),
        tether.make_log(None, three, context, action, action, rewards=reward, propensities=third),
        tether.make_log(None, bell, None, reward, reward * 0, rewards=reward, propensities=half),
        tether.make_log(
            tether.Shortlist(bell, size=4), bell, None, rng.normal(size=40), action,
            rewards=reward, rng=rng,
        ),
    ]  # fmt: skip
    for log in logs:
        np.testing.assert_array_equal(log.reward, reward)
