"""Proposals of two policies: who draws what, and how they are scored."""

import numpy as np
import pytest

import tether
from tether.sampling import PolicyPair


class Sharing:
    """A Gaussian that can score another one in the same call."""

    def __init__(self, mean, calls):
        self.inner, self.calls = tether.Gaussian(mean), calls

    def sample(self, contexts, rng):
        return self.inner.sample(contexts, rng)

    def log_prob(self, contexts, actions):
        self.calls.append("alone")
        return self.inner.log_prob(contexts, actions)

    def shares_weights(self, other):
        return isinstance(other, Sharing)

    def log_prob_both(self, other, contexts, actions):
        self.calls.append("both")
        return self.inner.log_prob(contexts, actions), other.inner.log_prob(contexts, actions)


def test_policies_that_share_weights_are_scored_in_one_call():
    calls = []
    plain = tether.Gaussian(0.0), tether.Gaussian(1.0)
    sharing = Sharing(0.0, calls), Sharing(1.0, calls)
    draws = [
        tether.Tethered(*pair, 0.5).sample(200, np.random.default_rng(0))
        for pair in (plain, sharing)
    ]
    assert np.array_equal(*draws)
    tables = [
        tether.make_proposals(*pair, None, 50, np.random.default_rng(0))
        for pair in (plain, sharing)
    ]
    assert np.array_equal(tables[0].log_safe, tables[1].log_safe)
    assert np.array_equal(tables[0].log_optimized, tables[1].log_optimized)
    assert set(calls) == {"both"}


def test_policies_that_do_not_share_weights_are_scored_separately():
    calls = []
    policy = tether.Tethered(Sharing(0.0, calls), tether.Gaussian(1.0), 0.5)
    policy.sample(20, np.random.default_rng(0))
    assert set(calls) == {"alone"}


def test_an_error_names_the_policy_with_invalid_scores():
    class Broken(Sharing):
        def log_prob_both(self, other, contexts, actions):
            return super().log_prob_both(other, contexts, actions)[0], np.full(len(actions), np.nan)

    policy = tether.Tethered(Broken(0.0, []), Broken(1.0, []), 0.5)
    with pytest.raises(ValueError, match="the optimized policy's log_prob"):
        policy.sample(20, np.random.default_rng(0))


@pytest.mark.parametrize("safe_weight", [0.0, 0.3, 1.0])
def test_proposals_come_from_each_policy_with_its_weight(safe_weight):
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(100.0)
    pair = PolicyPair(safe, optimized)
    for contexts in (4000, np.zeros(4000)):
        draws = pair.propose(safe_weight, contexts, np.random.default_rng(1))
        assert draws.from_safe.mean() == pytest.approx(safe_weight, abs=0.03)
        assert np.array_equal(draws.actions < 50, draws.from_safe)
        expected = optimized.log_prob(4000, draws.actions) - safe.log_prob(4000, draws.actions)
        assert np.array_equal(draws.log_ratio, expected)


def test_only_a_strict_pair_refuses_actions_that_the_safe_policy_cannot_take():
    safe = tether.Categorical.from_probabilities([1.0, 0.0])
    optimized = tether.Categorical.from_probabilities([0.5, 0.5])
    rng = np.random.default_rng(2)
    with pytest.raises(ValueError, match="that the safe policy never takes"):
        PolicyPair(safe, optimized).propose(0.5, 50, rng)
    draws = PolicyPair(safe, optimized, strict=False).propose(0.5, 50, rng)
    assert (draws.log_ratio[draws.actions == 1] == np.inf).all()
