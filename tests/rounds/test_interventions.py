"""What people do to a run: at once in every process, with a name, and for good."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import tether
from tests.rounds.worker_process import begin_and_act, open_run, two_rounds
from tests.rounds.worlds import World, one_round
from tether._core.contexts import take
from tether.rounds import Controller, calibrate_round, halt, read_history, resume, retire


def test_a_halt_reaches_every_process_with_its_next_call(store_url):
    with open_run(store_url) as one, open_run(store_url) as other:
        two_rounds(one)
        rng, current = np.random.default_rng(0), other.round
        assert current.beta > 0
        one.halt("a fire drill", actor="Ada")
        taken = current.act(rng.integers(3, size=5), rng)
        other._refresh()
        assert (other._rows.served[np.isin(other._rows.ids, taken.ids)] == 0).all()
        resume(store_url, "it is over", "Bob")
        taken = current.act(rng.integers(3, size=5), rng)
        other._refresh()
        assert (other._rows.served[np.isin(other._rows.ids, taken.ids)] == 2).all()
    done = [(each.act, each.actor, each.reason) for each in read_history(store_url).audit]
    assert done == [("halt", "Ada", "a fire drill"), ("resume", "Bob", "it is over")]


def test_who_and_why_are_checked(sqlite_url):
    with open_run(sqlite_url) as run:
        two_rounds(run)
        for reason in ("", "  ", None, 3):
            with pytest.raises(ValueError, match="reason must say why"):
                run.halt(reason)
        for actor in ("", " ", 7, "x" * 300):
            with pytest.raises(ValueError, match="actor must be a name"):
                run.halt("why not", actor=actor)
        run.halt("NUL \0 and a lone surrogate \ud800", actor="\0")
        assert run.history().audit[0].actor == "\\x00"
    halt(sqlite_url, "again")  # the name of the operating system's user
    assert read_history(sqlite_url).audit[1].actor
    resume(sqlite_url, "all of them")
    assert read_history(sqlite_url).alarm is None
    assert len(read_history(sqlite_url).alarms) == 2


def test_withdrawing_is_in_the_audit_trail(store_url):
    with open_run(store_url) as run:
        taken = begin_and_act(run)[1]
        run.withdraw(taken.ids[:7], "the power failed", actor="Ada")
        run.withdraw(taken.ids[:7], "the power failed", actor="Ada")  # nothing new
        audit = run.history().audit
    assert [(each.act, each.actor) for each in audit] == [("withdraw", "Ada")]
    assert audit[0].reason == "7 actions: the power failed"


@pytest.mark.parametrize("name", ["tables", "pool"])
def test_the_rows_of_a_retired_round_are_in_no_later_log(name, tmp_path, monkeypatch):
    """Its policy is not needed any more, and the mixture is that of the others."""
    world, rng, logs = World(name), np.random.default_rng(0), []

    def noted(log, *arguments, **options):
        logs.append(log)
        return tether.calibrate(log, *arguments, **options)

    options = {"alpha": 0.3, "alarm_risk": 0.9, "calibration_share": 1, "store": tmp_path / "a.db"}
    with Controller(world.safe(), **options) as run:
        third = [one_round(run, world, number, 150, rng)[0] for number in (1, 2, 3)][-1]
    with Controller(world.safe(), policies={"round 3": world.optimized(3)}, **options) as run:
        run.retire(2, "the disk failed", actor="Ada")
        monkeypatch.setattr(calibrate_round, "calibrate", noted)
        run.begin(world.optimized(4))
        rows = run._rows
        kept = np.flatnonzero(rows.served != 2)
        contexts, actions = take(rows.contexts, kept), rows.actions[kept]
        assert 0 < len(kept) < len(rows)
        np.testing.assert_array_equal(logs[0].loss["loss"], rows.losses[kept, 0])
        counts = {number: (rows.served == number).sum() for number in (0, 3)}
        densities = {0: world.safe(), 3: third.policy}
        mixed = sum(
            counts[number] * np.exp(policy.log_prob(contexts, actions))
            for number, policy in densities.items()
        )
        np.testing.assert_allclose(np.exp(logs[0].log_mix), mixed / len(kept), rtol=1e-9)
        assert run.history().rounds[1].retired


def test_what_may_be_retired(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(0)
    options = {"alpha": 0.3, "alarm_risk": 0.9, "against": "last", "store": tmp_path / "run.db"}
    with Controller(world.safe(), **options) as run:
        for number in (1, 2, 3):
            one_round(run, world, number, 150, rng)
    for number, said in [(1, "a round with a policy of its own"), (9, "got 9"), (True, "got True")]:
        with pytest.raises(ValueError, match=said):
            retire(tmp_path / "run.db", number, "lost")
    with pytest.raises(ValueError, match="round 3 is measured against round 2"):
        retire(tmp_path / "run.db", 2, "lost")
    retire(tmp_path / "run.db", 3, "lost")
    retire(tmp_path / "run.db", 2, "lost")
    with Controller(world.safe(), **options) as run:  # no policy is at hand, and none is needed
        assert run.round.beta == 0
        run.round.act(10, rng)
        assert (run.training_rows().round > 0).all()
        run.observe(run.pending().ids, np.zeros(10))
        assert run.begin(world.optimized(4)).beta > 0


def test_silence_raises_an_alarm():
    world, rng = World("marginal"), np.random.default_rng(1)
    run = Controller(world.safe(), alpha=0.3, store="sqlite://", max_silence=500, missing="exclude")
    taken = run.begin().act(1_000, rng)  # the safe policy may act as long as it likes
    run.observe(taken.ids, world.losses(None, taken.actions))
    round_ = run.begin(world.optimized(2))
    assert round_.beta > 0
    for _ in range(5):
        taken = round_.act(100, rng)
    assert run.history().alarm is None
    round_.act(1, rng)
    alarm = run.history().alarm
    assert (alarm.monitor, alarm.round) == ("silence", 2)
    assert "500 actions without a loss, the limit is 500" in alarm.message
    run.resume("the pipeline was repaired")
    for _ in range(10):  # one loss is enough to be heard
        taken = round_.act(400, rng)
        run.observe(taken.ids[:1], [0.0])
    assert run.history().alarm is None


def test_silence_in_time():
    world, rng = World("marginal"), np.random.default_rng(1)
    run = Controller(
        world.safe(), alpha=0.3, store="sqlite://", max_silence=timedelta(microseconds=1)
    )
    taken = run.begin().act(300, rng)
    run.observe(taken.ids, world.losses(None, taken.actions))
    round_ = run.begin(world.optimized(2))
    while run.history().alarm is None:  # times are stored in seconds
        round_.act(1, rng)
    assert "no loss has arrived since" in run.history().alarm.message


@pytest.mark.parametrize("limit", [0, -1, 0.5, "ten", timedelta(0)])
def test_an_impossible_limit_of_silence(limit):
    with pytest.raises((ValueError, TypeError), match="max_silence"):
        Controller(tether.Gaussian(0.0), alpha=0.3, store="sqlite://", max_silence=limit)


def test_a_round_that_is_retired_serves_no_more(store_url):
    """Also in processes that have it open."""
    with open_run(store_url) as run:
        two_rounds(run)
        round_, rng = run.round, np.random.default_rng(0)
        assert round_.beta > 0
        with pytest.raises(ValueError, match="number must be an integer"):
            run.retire(2.0, "lost")
        run.retire(np.int64(2), "lost")
        taken = round_.act(rng.integers(3, size=5), rng)
        run._refresh()
        assert (run._rows.served[np.isin(run._rows.ids, taken.ids)] == 0).all()
    open_run(store_url).close()


def test_withdrawals_do_not_end_silence():
    world, rng = World("marginal"), np.random.default_rng(1)
    run = Controller(world.safe(), alpha=0.3, store="sqlite://", max_silence=50, missing="exclude")
    taken = run.begin().act(300, rng)
    run.observe(taken.ids, world.losses(None, taken.actions))
    round_ = run.begin(world.optimized(2))
    for _ in range(6):
        run.withdraw(round_.act(10, rng).ids, "never carried out")
    assert run.history().alarm.monitor == "silence"
