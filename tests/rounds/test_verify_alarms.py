"""Alarms of monitors are raised again from the rows, and compared."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

import tether
from tests.rounds.forged_stores import link_again
from tests.rounds.releases.test_release import GUARDRAILS, USERS, play_step
from tether.rounds import Controller, verify_store

ALARMING = {"alpha": 0.1, "alarm_risk": 0.2}


def problems(path):
    return [finding.text for finding in verify_store(path).problems]


@pytest.fixture
def two_alarms(tmp_path):
    """A run with an alarm of the risk monitor in each of two rounds, the first cleared."""
    rng = np.random.default_rng(0)
    with Controller(tether.Gaussian(0.0), store=tmp_path / "run.db", **ALARMING) as run:
        taken = run.begin().act(400, rng)
        run.observe(taken.ids, (taken.actions > 2).astype(float))
        for quiet in (60, 0):
            round_ = run.begin(tether.Gaussian(0.3))
            taken = round_.act(quiet + 40, rng)
            for begin in range(0, len(taken.ids), 7):
                some = slice(begin, begin + 7)
                losses = np.arange(quiet + 40)[some] >= quiet
                run.observe(taken.ids[some], losses.astype(float))
            if quiet:
                run.resume("it is mended", actor="Ada")
        first, second = (alarm.message for alarm in run.history().alarms)
    assert "the evidence grew from loss 61 on, over " in first
    assert "the evidence grew from loss 1 on, over " in second
    return tmp_path / "run.db"


def forge(path, number, old, new):
    """Change the message of an alarm, and compute the hash chain anew."""
    with closing(sqlite3.connect(path)) as connection:
        statement = "UPDATE tether_alarms SET message = replace(message, ?, ?) WHERE number = ?"
        assert connection.execute(statement, [old, new, number]).rowcount == 1
        connection.commit()
    link_again(path)


def test_alarms_that_follow_from_their_losses_verify(two_alarms):
    assert problems(two_alarms) == []


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(("old", "new"), [("from loss", "from loss 1"), ("at loss ", "at loss 9")])
def test_an_alarm_that_says_another_loss_is_named(two_alarms, number, old, new):
    forge(two_alarms, number, old, new)
    told = f"alarm {number} of the risk monitor does not follow from what it had seen"
    assert problems(two_alarms) == [told]


def test_the_last_minimum_of_the_wealth_must_follow_from_the_losses(two_alarms):
    with closing(sqlite3.connect(two_alarms)) as connection:
        query = "SELECT value FROM tether_kept WHERE name = 'round 3'"
        text = connection.execute(query).fetchone()[0]
        changed = text.replace('"lowest_at": 0', '"lowest_at": 1')
        assert changed != text
        statement = "UPDATE tether_kept SET value = ? WHERE name = 'round 3'"
        connection.execute(statement, [changed])
        connection.commit()
    assert "the risk monitor of round 3 does not follow from its losses" in problems(two_alarms)


def test_an_alarm_of_a_release_names_its_guardrail(tmp_path):
    path = tmp_path / "release.db"
    with tether.Release(path, GUARDRAILS, old={"complaint": np.zeros(2000)}) as release:
        play_step(release, USERS[:1000])
        release.advance()
        release.assign(USERS)
        release.observe(USERS[1000:1200], [1.0] * 200)
    assert problems(path) == []
    forge(path, 1, "complaint: ", "delay: ")
    assert len(problems(path)) == 1


def test_an_alarm_of_the_shift_monitor_is_raised_again(tmp_path):
    path, rng = tmp_path / "run.db", np.random.default_rng(0)
    settings = ALARMING | {"context_score": lambda contexts: contexts[:, 0]}
    with Controller(tether.Gaussian(0.0), store=path, **settings) as run:
        round_ = run.begin()
        for mean in (0.0, 0.0, 2.0):
            for _ in range(3):
                round_.act(mean + rng.normal(size=(100, 1)), rng)
        alarm = run.history().alarm
    assert alarm.monitor == "shift"
    assert "the evidence grew from score " in alarm.message
    assert problems(path) == []
    forge(path, 1, "from score ", "from score 2")
    told = "alarm 1 of the shift monitor does not follow from what it had seen"
    assert problems(path) == [told]
