"""A new system that answers only keys that come back is not watched, and the release says so."""

from __future__ import annotations

from datetime import datetime

import numpy as np

import tether
from tests.rounds.releases.test_stalled_share import USERS, play
from tether.rounds.releases import step


def opened(**given):
    return tether.Release("sqlite://", {"harm": 0.2}, old={"harm": np.zeros(500)}, **given)


def test_two_steps_without_a_row_are_told():
    with opened(salt=b"a") as release:
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
        play(release, USERS)
        play(release, USERS)
        release.halt("a test", actor="ann")
        assert release.history().unwatched == ""  # the old system answers all keys


def test_a_step_that_waits_for_its_keys_in_vain_is_told(monkeypatch):
    with opened(salt=b"a", keys_per_step=len(USERS)) as release:
        for number in range(2):
            users = [f"{number} {user}" for user in USERS]
            release.observe(users, [0.3] * len(users), system=release.assign(users))
        release.halt("a test", actor="ann")
        release.resume("it was nothing", actor="ann")
        release.assign(USERS[:1])
        release.assign(users)  # they come back, and are no rows
        assert "new" in release.assign(users)
        first, *_, last = (datetime.fromisoformat(each.begun) for each in release.history().steps)
        monkeypatch.setattr(step, "moment", lambda: last)
        assert release.history().unwatched == ""
        monkeypatch.setattr(step, "moment", lambda: last + 3 * (last - first))
        assert "new to the new system since step 2" in release.history().unwatched


def test_nothing_is_said_before_the_new_system_had_a_row():
    with opened(salt=b"a") as release:
        for _ in range(4):
            release.advance()
        assert release.history().unwatched == ""
