"""A policy is recognized by its name, its fingerprint and its scores."""

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import controller
from tests.rounds.worlds import World, one_round
from tether.rounds import reopen


def test_a_run_goes_on_after_a_restart(tmp_path):
    world, store = World("marginal"), tmp_path / "run.db"
    whole, halves = [], []
    rng = np.random.default_rng(15)
    with controller(world, tmp_path / "other.db", alpha=0.3) as run:
        whole = [one_round(run, world, number, 200, rng)[0].beta for number in range(1, 6)]
    rng = np.random.default_rng(15)
    with controller(world, store, alpha=0.3) as run:
        halves = [one_round(run, world, number, 200, rng)[0].beta for number in range(1, 4)]
    names = {f"round {number}": world.optimized(number) for number in range(1, 6)}
    with controller(
        world, store, alpha=0.3, policies=names | {"round 3": tether.Gaussian(9.0)}
    ) as run:
        with pytest.raises(ValueError, match=r"policies\['round 3'\] is not the policy of round 3"):
            run.begin(world.optimized(4))
    for opened in (
        controller(world, store, alpha=0.3, policies=names.get),
        reopen(store),  # the same from the store alone
    ):
        with opened as run:
            current = run.round
            assert current.number == len(halves)
            assert current.beta == pytest.approx(halves[-1])
            halves.append(one_round(run, world, current.number + 1, 200, rng)[0].beta)
    assert halves == pytest.approx(whole, rel=1e-9)


def test_a_policy_with_other_scores_is_refused(tmp_path):
    world, store, rng = World("marginal"), tmp_path / "run.db", np.random.default_rng(16)

    def hidden(mean):
        policy = tether.Gaussian(mean, 0.9)
        return tether.FunctionPolicy(policy.sample, policy.log_prob)

    with controller(world, store) as run:
        one_round(run, world, 1, 200, rng)
        round_ = run.begin(hidden(0.6), name="bold")
        run.observe(round_.act(50, rng).ids, np.zeros(50))
    with controller(world, store, policies={"bold": hidden(0.7)}) as run:
        with pytest.raises(ValueError, match="the optimized policy is not the 'bold'"):
            run.begin(world.optimized(3))
    with controller(world, store, policies={"bold": hidden(0.6)}) as run:
        assert run.begin(world.optimized(3)).beta > 0
