"""After a resumption no place says that the alarm still decides who serves."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tests.cli.command_line import one_line
from tests.cli.command_line import run as command
from tether.report.sentences import run_promise, run_state
from tether.rounds import Controller
from tether.rounds.cleared_alarms import RAMP_OVER, present_note
from tether.rounds.round_start import alarm_note
from tether.rounds.served_run import ServedRun

CLEARED = "was cleared since: the safe policy serves until the next round begins"
SETTINGS = {"alpha": 0.2, "alarm_risk": 0.5}


def begun_in_an_alarm(path, **settings):
    """A run whose third round began while an alarm stood."""
    rng = np.random.default_rng(0)
    run = Controller(tether.Gaussian(0.0), store=path, **SETTINGS, **settings)
    for policy in (None, tether.Gaussian(0.3)):
        taken = run.begin(policy).act(300, rng)
        run.observe(taken.ids, (taken.actions > 2).astype(float))
    run.halt("a drill", actor="ann")
    run.begin(tether.Gaussian(0.4))
    return run


def test_only_the_note_of_a_cleared_alarm_changes():
    assert present_note(alarm_note(2), 1) == alarm_note(2)
    assert present_note(alarm_note(2), 2).startswith("alarm 2 stood when the round began, and was")
    assert present_note("no beta passes", 3) == "no beta passes"
    assert present_note("", 3) == ""


def test_a_round_that_began_in_an_alarm_says_that_it_was_cleared(tmp_path):
    path = tmp_path / "run.db"
    with begun_in_an_alarm(path) as run:
        assert run.history().rounds[-1].note == alarm_note(1)
        run.resume("it is over", actor="ann")
        last = run.history().rounds[-1]
        assert CLEARED in last.note
        assert CLEARED in run_state(run.history()).details
        assert CLEARED in " ".join(str(last).split())
        run.begin(tether.Gaussian(0.4))
        assert run.history().rounds[2].note == alarm_note(1)  # it is history
    text = one_line(command("status", path))
    assert "cleared since" not in text


def test_the_status_on_the_command_line_says_so_too(tmp_path):
    with begun_in_an_alarm(tmp_path / "run.db") as run:
        run.resume("it is over", actor="ann")
    assert CLEARED in one_line(command("status", tmp_path / "run.db"))


def test_a_service_says_so_too():
    with begun_in_an_alarm("sqlite://") as run:
        served = ServedRun(run)
        assert served.follow().note == alarm_note(1)
        run.resume("it is over", actor="ann")
        assert CLEARED in served.follow().note


@pytest.mark.parametrize("in_alarm", [False, True])
def test_a_ramp_whose_alarm_was_cleared_is_over_and_promises_nothing(in_alarm):
    rng = np.random.default_rng(1)
    if in_alarm:
        run = begun_in_an_alarm("sqlite://", family="ramp")
    else:
        run = Controller(tether.Gaussian(0.0), store="sqlite://", family="ramp", **SETTINGS)
        taken = run.begin().act(300, rng)
        run.observe(taken.ids, np.zeros(300))
        run.begin(tether.Gaussian(0.3))
        assert not run.history().rounds[-1].over
        run.halt("a drill", actor="ann")
    served, number = ServedRun(run), run.history().rounds[-1].number
    assert not run.history().rounds[-1].over
    run.resume("it is over", actor="ann")
    history = run.history()
    last = history.rounds[-1]
    assert (last.over, last.note, last.why) == (True, RAMP_OVER, RAMP_OVER)
    assert run_state(history).sentence == f"Round {number} is over."
    assert run_promise(history)[0].startswith("No promise")
    assert str(history).startswith(f"round {number}: an alarm was cleared since the round began")
    assert served.follow().note == RAMP_OVER
    run.round.act(1, rng)
    assert [each.over for each in run.history().rounds] == [False] * (number + 1)
    run.close()
