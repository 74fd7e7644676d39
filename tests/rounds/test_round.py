"""A round acts until it is over, with the policy that was calibrated."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import MovingGaussian, begun_run, controller, refreshed_rows
from tests.rounds.store_invariants import read_tables
from tests.rounds.worker_process import begin_and_act, open_run
from tests.rounds.worlds import World
from tether.rounds import Controller, RoundOverError


def test_a_round_is_over_when_the_next_begins():
    world, rng = World("marginal"), np.random.default_rng(11)
    run = controller(world)
    first = run.begin()
    run.begin()
    with pytest.raises(RoundOverError, match="round 1 is over: round 2 has begun"):
        first.act(3, rng)
    assert len(run.pending()) == 0


def test_an_existing_log_is_recorded():
    world, rng = World("marginal"), np.random.default_rng(12)
    run = controller(world)
    old = world.safe().sample(500, rng)
    taken = run.begin().record(None, old, rng)
    run.observe(taken.ids, world.losses(None, old))
    round_ = run.begin(world.optimized(2))
    assert round_.beta > 0
    with pytest.raises(ValueError, match="round 2 is not a round of the safe policy"):
        round_.record(None, old, rng)


def test_a_policy_trained_in_place_is_refused_when_it_acts():
    policy = MovingGaussian(0.6)
    _, round_, rng = begun_run(policy)
    assert round_.beta > 0
    round_.act(10, rng)
    policy.mean = 2.5
    with pytest.raises(ValueError, match=r"policy of round 2.*trained further in place"):
        round_.act(10, rng)


def test_a_round_that_is_over_stores_no_actions(store_url):
    with open_run(store_url) as run:
        old, _ = begin_and_act(run)
        run.begin()
        with pytest.raises(RoundOverError, match="round 1 is over: round 2 has begun"):
            old.act(np.zeros(3, int), np.random.default_rng(0))
        assert len(read_tables(run)["tether_actions"]) == 30


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
