"""Rounds of a run that ramps: how they begin, go on, end, and continue after a restart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tether
from tests.rounds.ramps.ramp_model import AlwaysTakes
from tests.rounds.ramps.test_ramp_round import started
from tether.rounds import RoundTakenError, verify_store


def play(run, round_, rng, harmful, steps, count=100):
    """Act and observe for some steps; whether an action does harm is a function of it."""
    shares = []
    for _ in range(steps):
        taken = round_.act(count, rng)
        run.observe(taken.ids, harmful(taken.actions).astype(float))
        shares.append(run.round.share)
    return shares


def test_a_policy_fifty_nats_away_reaches_all_actions_on_its_own_rows():
    """Clip has no row that says anything about it; a ramp needs none."""
    rng = np.random.default_rng(0)
    safe, far = tether.Gaussian(0.0), tether.Gaussian(10.0)
    assert far.log_prob(1, np.array([10.0])) - safe.log_prob(1, np.array([10.0])) >= 50
    shares = {}
    for family in ("clip", "ramp"):
        with tether.Controller(safe, alpha=0.1, store="sqlite://", family=family) as run:
            taken = run.begin().act(500, rng)
            run.observe(taken.ids, (taken.actions > 2).astype(float))
            round_ = run.begin(far)
            if family == "clip":
                shares[family] = (round_.act(200, rng).actions > 5).mean()
                continue
            for _ in range(4):
                taken = round_.act(200, rng)
                run.observe(taken.ids, ((taken.actions > 2) & (taken.actions < 5)).astype(float))
                run.advance()
            shares[family] = (round_.act(200, rng).actions > 5).mean()
    assert shares == {"clip": 0, "ramp": 1}


def test_a_harmful_policy_with_a_large_share_raises_an_alarm_and_resuming_begins_anew():
    run, rng = started(actions_per_step=100)
    round_ = run.begin(AlwaysTakes(1))
    first = round_.share
    assert play(run, round_, rng, lambda actions: actions > 1, 3)[-1] == 1
    play(run, round_, rng, lambda actions: actions == 1, 1)
    alarm = run.history().alarm
    assert (alarm.monitor, alarm.round) == ("risk", 5)
    assert set(round_.act(50, rng).actions) == {0}
    run.resume("mended", actor="ann")
    taken = round_.act(100, rng)
    assert set(taken.actions) == {0, 1}
    present = run.round
    assert (present.number, present.share) == (6, first)
    assert (present._stored.step.ramp, present._stored.first) == (6, 2)


def test_with_several_losses_the_share_is_the_smallest():
    alphas = {"harm": 0.2, "delay": 5.0}
    given = {"alpha": alphas, "bound": {"harm": 1.0, "delay": 60.0}}
    with tether.Controller(AlwaysTakes(0), store="sqlite://", family="ramp", **given) as run:
        rng = np.random.default_rng(0)
        taken = run.begin().act(400, rng)
        run.observe(taken.ids, {"harm": np.zeros(400), "delay": np.full(400, 1.0)})
        round_ = run.begin(AlwaysTakes(1))
        found = round_.ramp_share
        assert found.binding == "delay"
        assert found.share == min(each.share for each in found.guardrails.values())
        taken = round_.act(400, rng)
        run.observe(taken.ids, {"harm": np.zeros(400)})
        assert run.advance().share == round_.share  # the delays are not known yet
        run.observe(taken.ids, {"delay": np.full(400, 1.0)})
        taken = round_.act(400, rng)
        run.observe(taken.ids, {"harm": np.zeros(400), "delay": np.zeros(400)})
        assert run.advance().share == 1


def test_two_processes_cannot_begin_the_same_round(tmp_path, monkeypatch):
    run, rng = started(store=tmp_path / "run.db")
    other = tether.Controller(AlwaysTakes(0), store=tmp_path / "run.db", alpha=0.2, family="ramp")
    save = tether.rounds.ramps.begin_ramp.save_policy_content

    def saved_while_another_begins(policy):
        monkeypatch.undo()
        other.begin(AlwaysTakes(2))
        return save(policy)

    name = "tether.rounds.ramps.begin_ramp.save_policy_content"
    monkeypatch.setattr(name, saved_while_another_begins)
    with pytest.raises(RoundTakenError, match="round 2 was begun by another process"):
        run.begin(AlwaysTakes(1))
    assert {0, 2} >= set(other.round.act(300, rng).actions)
    with pytest.raises(ValueError, match="'round 2', which is not available"):
        _ = run.round
    other.close()


def test_threads_act_in_the_steps_of_one_ramp(tmp_path):
    run, _ = started(store=tmp_path / "run.db", actions_per_step=60)
    round_ = run.begin(AlwaysTakes(1))

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(10):
            taken = round_.act(10, rng)
            run.observe(taken.ids, np.zeros(10))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    records = run.history().rounds[1:]
    assert sum(record.rows for record in records) == 400
    assert all(60 <= record.rows <= 90 for record in records[:-1])
    run.close()
    assert verify_store(tmp_path / "run.db").ok
