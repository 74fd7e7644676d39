"""Two policies that share what scoring costs are scored at once, and checked as if apart."""

import numpy as np
import pytest

import tether


class Sharing:
    """A Gaussian that scores another one beside itself."""

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


def test_draws_and_proposals_are_the_same_and_scored_at_once():
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


def test_policies_that_do_not_share_are_scored_apart():
    calls = []
    policy = tether.Tethered(Sharing(0.0, calls), tether.Gaussian(1.0), 0.5)
    policy.sample(20, np.random.default_rng(0))
    assert set(calls) == {"alone"}


def test_bad_scores_are_blamed_on_the_policy_that_has_them():
    class Broken(Sharing):
        def log_prob_both(self, other, contexts, actions):
            return super().log_prob_both(other, contexts, actions)[0], np.full(len(actions), np.nan)

    policy = tether.Tethered(Broken(0.0, []), Broken(1.0, []), 0.5)
    with pytest.raises(ValueError, match="the optimized policy's log_prob"):
        policy.sample(20, np.random.default_rng(0))
