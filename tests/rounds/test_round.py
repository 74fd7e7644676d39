"""A round acts until it is over, with the policy that was calibrated."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rounds.small_runs import MovingGaussian, begun_run, controller
from tests.rounds.store_invariants import read_tables
from tests.rounds.worker_process import begin_and_act, open_run
from tests.rounds.worlds import World
from tether.rounds import RoundOverError


def test_a_round_is_over_when_the_next_begins():
    world, rng = World("marginal"), np.random.default_rng(11)
    run = controller(world)
    first = run.begin()
    run.begin()
    with pytest.raises(RoundOverError, match="round 1 is over: round 2 has begun"):
        first.act(3, rng)
    assert len(run.pending()) == 0


def test_the_log_of_before_is_recorded():
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


def test_a_round_that_is_over_takes_no_more(store_url):
    with open_run(store_url) as run:
        old, _ = begin_and_act(run)
        run.begin()
        with pytest.raises(RoundOverError, match="round 1 is over: round 2 has begun"):
            old.act(np.zeros(3, int), np.random.default_rng(0))
        assert len(read_tables(run)["tether_actions"]) == 30
