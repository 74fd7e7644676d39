"""A round acts until it is over, with the policy that was calibrated."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import MovingGaussian, begun_run, refreshed_rows
from tether.rounds import Controller


def test_a_policy_trained_in_place_is_refused_when_it_acts():
    policy = MovingGaussian(0.6)
    _, round_, rng = begun_run(policy)
    assert round_.beta > 0
    round_.act(10, rng)
    policy.mean = 2.5
    with pytest.raises(ValueError, match=r"policy of round 2.*trained further in place"):
        round_.act(10, rng)


def test_actions_drawn_before_an_alarm_of_another_process_are_not_stored(store_url):
    """`act` looks again when it stores: nothing of the optimized policy is kept after an alarm."""

    class Interrupted(tether.Gaussian):
        """Draws, while somebody else observes losses that raise an alarm."""

        alarming = None

        def sample(self, contexts, rng):
            if self.alarming is not None:
                alarming, self.alarming = self.alarming, None
                alarming()
            return super().sample(contexts, rng)

    optimized = Interrupted(0.3)
    options = {"store": store_url, "alpha": 0.1, "false_alarm_probability": 0.01}
    rng = np.random.default_rng(0)
    with Controller(tether.Gaussian(0.0), **options) as run:
        taken = run.begin().act(400, rng)
        run.observe(taken.ids, (taken.actions > 2.0).astype(float))
        round_ = run.begin(optimized)
        assert round_.beta > 1  # so the optimized policy proposes
        taken = round_.act(100, rng)
        with Controller(tether.Gaussian(0.0), **options) as other:
            optimized.alarming = lambda: other.observe(taken.ids, np.ones(100))
            late = round_.act(50, rng)
            assert optimized.alarming is None
            assert other.history().alarm is not None
        rows = refreshed_rows(run)
        assert len(rows) == 550  # the first draw was dropped
        assert (rows.served[500:] == 0).all()
        assert np.isnan(rows.log_optimized[500:]).all()
        np.testing.assert_allclose(rows.log_prob[500:], run.safe.log_prob(50, late.actions))
        assert late.failure == ""
