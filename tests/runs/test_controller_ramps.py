"""Ramps of policies, monitors, halts: what sends traffic back to the safe policy."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest

from tests.runs.worlds import WORLDS, started
from tether.runs import Controller, Run
from tether.runs.errors import RoundOverError
from tether.runs.shares import fresh_share, upper_bound


class Draws:
    """A policy that tells no probabilities."""

    def __init__(self, mean: float) -> None:
        self.mean = mean

    def sample(self, contexts, rng):
        return rng.normal(self.mean, size=contexts if isinstance(contexts, int) else len(contexts))


def harm(actions):
    return (actions > 1.5).astype(float)


def ramp(store="sqlite://", **settings):
    return Controller(Draws(0.0), store, alpha=0.2, **{"family": "ramp", **settings})


def serve(run, rng, count=200):
    taken = run.round.act(count, rng)
    run.observe(taken, harm(taken.actions))
    return taken


def test_a_policy_that_is_far_away_reaches_everybody(store_url):
    rng = np.random.default_rng(0)
    policies = {"far": Draws(-30.0)}
    with ramp(store_url, policies=policies) as run:
        run.begin()
        old = serve(run, rng, 400)
        round_ = run.begin(policies["far"], name="far")
        kept = ~np.isin(old.ids, run.training_rows().ids)
        losses = harm(old.actions)[kept]
        risk = (losses.sum() + 1) / (len(losses) + 1)
        assert round_.share == pytest.approx(fresh_share(np.array([]), risk, 0.2))
        shares = [round_.share]
        for _ in range(6):
            taken = serve(run, rng, 400)
            assert set(taken.served) <= {0, run.round.number}
            shares.append(run.advance().share)
        assert shares[-1] == 1.0
        assert all(a <= 3 * b + 0.02 + 1e-9 for b, a in pairwise(shares))
        assert round_.act(10, rng).served.tolist() == [run.round.number] * 10  # the first handle
        run.withdraw(run.pending(), "a test")
        assert run.verify() == []
    with ramp(store_url, policies=policies) as run:
        assert run.round.share == 1.0
        assert len(run.round.act(5, rng)) == 5
    with Run.open(store_url) as run:
        assert run.verify() == []


def test_losses_that_are_not_known_count_as_the_worst():
    rng = np.random.default_rng(0)
    with ramp() as run:
        run.begin()
        serve(run, rng, 400)
        first = run.begin(Draws(-30.0)).share
        taken = run.round.act(400, rng)
        assert (taken.served > 0).any()
        assert run.advance().share == pytest.approx(first)  # that of a loss everywhere
        run.observe(taken, harm(taken.actions))
        assert run.advance().share > first


def test_a_harmful_policy_is_stopped_and_resumed_by_a_new_ramp():
    rng = np.random.default_rng(1)
    with ramp() as run:
        run.begin()
        serve(run, rng, 400)
        round_ = run.begin(Draws(3.0))
        served = 0
        while run.history().standing is None:
            served += (serve(run, rng, 50).served > 0).sum()
        assert served < 40
        alarm = run.history().alarm
        assert alarm.monitor == "stop"
        assert set(round_.act(20, rng).served) == {0}
        run.resume("a test", actor="ann")
        run.withdraw(run.pending(), "a test")
        taken = round_.act(200, rng)  # a new ramp of the same policy has begun by itself
        assert (taken.served > 0).any()
        assert run.round._unit.ramp == run.round.number
        assert run.history().alarms[0].actor == "ann"
        assert run.verify() == []


def test_steps_end_by_themselves():
    rng = np.random.default_rng(2)
    with ramp(family="ramp(100)") as run:
        run.begin()
        serve(run, rng, 300)
        round_ = run.begin(Draws(-5.0))
        with pytest.raises(ValueError, match="advance"):
            run.advance()
        for _ in range(6):
            taken = round_.act(100, rng)
            run.observe(taken, harm(taken.actions))
        units = run.history().units
        assert [unit.rows["old"] + unit.rows["new"] for unit in units[1:]] == [100] * 6
        assert units[-1].level > units[1].level
        assert run.verify() == []


@pytest.mark.parametrize(("failing", "steps"), [(0, 1), (70, 1), (70, 2)])
def test_against_the_last_policy_that_reached_everybody(failing, steps):
    rng = np.random.default_rng(3)
    with ramp(against="last") as run:
        run.begin()
        serve(run, rng, 400)
        run.begin(Draws(-1.0))
        while run.round.share < 1:
            serve(run, rng, 400)
            run.advance()
        reached = run.round.number
        for step in range(steps):
            taken = run.round.act(400, rng)
            run.observe(taken, (np.arange(400) < (0 if step else failing)) * 1.0)
            if step + 1 < steps:
                run.advance()
        round_ = run.begin(Draws(-2.0))
        if failing and steps == 1:  # less than 0.2, but that is not shown
            assert round_.reference == 0
            return
        assert round_.reference == reached
        bound = upper_bound(np.repeat([1.0, 0.0], [failing, 400 * steps - failing]), 0.05)
        assert round_.share == pytest.approx(fresh_share(np.array([]), bound, 0.2))
        taken = serve(run, rng, 300)
        assert set(taken.served) == {reached, round_.number}
        assert run.verify() == []
        run.begin()
        with pytest.raises(RoundOverError):
            round_.act(1, rng)


# ---- monitors -----------------------------------------------------------------------------------


def test_the_transaction_that_sees_the_loss_stops_the_policy():
    run, round_, rng = started()
    assert round_.beta > 0
    taken = round_.act(200, rng)
    assert set(taken.served) == {2}
    count = 0
    while run.history().standing is None:
        run.observe(taken.ids[[count]], [1.0])
        count += 1
    assert count < 60  # the other rows, whose losses are not known, count as harmless
    assert set(round_.act(20, rng).served) == {0}
    run.resume("a test")
    with pytest.raises(ValueError, match="nothing to resume"):
        run.resume("again")
    assert set(round_.act(20, rng).served) == {2}  # the same round goes on
    run.observe(taken.ids[count:], np.ones(200 - count))  # rows from before do not count
    assert run.history().standing is None
    assert run.verify() == []


def test_a_shift_of_contexts_raises_an_alarm(tmp_path):
    world, rng = WORLDS["lines"], np.random.default_rng(5)
    settings = {"alpha": 0.12, "context_score": lambda x: x[:, 0]}
    with Controller(world.safe, tmp_path / "run.db", **settings) as run:
        round_ = run.begin()
        for _ in range(8):
            round_.act(world.contexts(rng, 150), rng)
        assert run.history().standing is None
        round_.act(world.contexts(rng, 150) + 2, rng)
        assert run.history().alarm.monitor == "shift"
        run.resume("the season")
        round_.act(world.contexts(rng, 700) + 2, rng)
        assert run.history().standing is None
        assert run.verify() == []
    with Controller(world.safe, tmp_path / "run.db", **settings) as run:
        run.round.act(world.contexts(rng, 300) - 1, rng)
        assert run.history().alarm.monitor == "shift"
        assert run.verify() == []


@pytest.mark.parametrize("limit", [50, timedelta(microseconds=1)])
def test_silence_raises_an_alarm(limit):
    run, round_, rng = started(max_silence=limit)
    round_.act(30, rng)
    round_.act(30, rng)
    assert run.history().alarm.monitor == "silence"
    assert set(round_.act(3, rng).served) == {0}
    assert run.verify() == []


def test_a_halt_holds_in_every_process_until_resume(store_url):
    run, round_, rng = started(store_url)
    with run:
        assert set(round_.act(5, rng).served) == {2}
        with Run.open(store_url) as operator:
            operator.halt("a complaint", actor="eve")
        assert set(round_.act(5, rng).served) == {0}
        assert "alarm 1" in run.begin(WORLDS["nothing"].news[1]).note
        run.resume("settled", actor="eve")
        assert [act.act for act in run.history().acts] == ["halt", "resume"]
        assert run.verify() == []


# ---- along a path -------------------------------------------------------------------------------


def test_rounds_along_a_path():
    pytest.importorskip("transformers", reason="needs tether[llm]")
    from tests.llm.test_token_tether import PROMPT, TokenTether, two_models

    rng, (safe, *news) = np.random.default_rng(7), two_models((0, 3, 5))
    with Controller(safe, "sqlite://", alpha=0.1, family="token_mix") as run:
        rounds = []
        for policy in (None, *news):
            rounds.append(run.begin(policy and TokenTether(safe, policy, family="mix")))
            taken = rounds[-1].act(np.tile(PROMPT, (300, 1)), rng)
            run.observe(taken, taken.actions[:, 0] != 3)  # the safe model hardly ever
        assert all(0 < each.beta < np.inf for each in rounds[1:])
        with pytest.raises(TypeError, match="TokenTether"):
            run.begin(news[0])
        with pytest.raises(ValueError, match="own safe"):
            run.begin(TokenTether(*news, family="mix"))
        assert run.verify() == []
