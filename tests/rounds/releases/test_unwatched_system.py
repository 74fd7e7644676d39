"""A new system that answers only keys that come back is not watched, and the release says so."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

import tether
from tests.rounds.releases.returning_keys import USERS, opened, play, wait_in_vain
from tether.rounds.releases import step


def test_two_steps_without_a_row_are_told():
    with opened() as release:
        while release.share < 1:
            play(release, USERS)
        play(release, USERS)  # the last users that the new system has not answered yet
        assert release.history().steps[-2].new.rows > 0
        play(release, USERS, loss=1.0)
        assert release.history().warnings == ()
        play(release, USERS, loss=1.0)  # they all come back, and all are harmed
        last = release.history().steps[-4].number
        assert release.history().alarm is None
        (told,) = release.history().warnings
        assert told == release.history().unwatched
        assert told.startswith(f"no key was new to the new system since step {last}, so nothing")
        assert told in " ".join(str(release.history()).split())
        release.assign("somebody else")
        assert release.history().unwatched == ""
        for _ in range(3):
            play(release, USERS)
        assert release.history().unwatched
        release.halt("a test", actor="ann")
        assert release.history().unwatched == ""  # the old system answers all keys


def test_a_step_that_waits_for_its_keys_in_vain_is_told(monkeypatch):
    with opened(keys_per_step=len(USERS)) as release:
        wait_in_vain(release)
        first, *_, last = (datetime.fromisoformat(each.begun) for each in release.history().steps)
        monkeypatch.setattr(step, "moment", lambda: last)
        assert release.history().unwatched == ""
        monkeypatch.setattr(step, "moment", lambda: last + 3 * (last - first))
        assert "new to the new system since step 2" in release.history().unwatched
        others = (f"other {k}" for k in range(1000))
        while release.assign(next(others)) == "old":
            pass
        assert release.history().unwatched == ""  # this one is watched, however long it took


def test_steps_that_an_alarm_stopped_and_long_steps_that_end_by_hand_tell_nothing(monkeypatch):
    with opened() as release:
        while release.share < 1:
            play(release, USERS)
        play(release, USERS)
        last = datetime.fromisoformat(release.history().steps[-1].begun)
        with monkeypatch.context() as patched:
            patched.setattr(step, "moment", lambda: last + timedelta(days=99))
            assert release.history().unwatched == ""  # no step without rows has ended
        release.halt("a test", actor="ann")
        for _ in range(3):
            release.advance()
        release.resume("it was nothing", actor="ann")
        assert "new" in release.assign(USERS)
        assert release.share > 0
        assert release.history().unwatched == ""


def test_nothing_is_said_before_the_new_system_had_a_row():
    with opened() as release:
        for _ in range(4):
            release.advance()
        assert release.history().unwatched == ""


def test_a_key_monitor_sees_what_the_release_does_not_and_sends_the_keys_back():
    """The system becomes bad for keys that come back: two requests of each, which fail together."""
    rng, monitor = np.random.default_rng(1), tether.monitor.KeyMonitor(alpha=0.3)
    with opened() as release:
        while release.share < 1 or release.history().steps[-2].new.rows:
            play(release, USERS)
        for risk in (0.1, 0.1, 0.1, 0.5):
            systems = play(release, USERS, loss=1.0)  # are no rows: the first outcome counts
            served = [user for user, by in zip(USERS, systems, strict=True) if by == "new"]
            failed = (rng.random(len(served)) < risk).astype(float)
            status = monitor.update(served * 2, np.tile(failed, 2))
            assert status.alarm == (risk == 0.5)
        assert release.history().alarm is None
        assert "tether.monitor.KeyMonitor" in release.history().unwatched
        release.halt(str(status), actor="nightly job")
        assert set(release.assign(USERS)) == {"old"}
        assert "ALARM at window 4" in release.history().alarm.message
