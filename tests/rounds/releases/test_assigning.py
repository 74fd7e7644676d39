"""Assignments while something else happens: nothing is stored that no longer holds."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tether.rounds.releases.assigning import Assigner

KEYS = [f"key {k}" for k in range(50)]


@pytest.fixture
def release():
    """A release whose new system has nearly half of the keys at once."""
    made = tether.Release("sqlite://", {"harm": 0.45}, old={"harm": np.zeros(500)})
    assert made.share > 0.4
    return made


def once(monkeypatch, act):
    """Do something between the look at the store and the write, the first time."""
    look, done = Assigner._look, []

    def look_and_act(self, keys):
        found = look(self, keys)
        if not done:
            done.append(True)
            act()
        return found

    monkeypatch.setattr(Assigner, "_look", look_and_act)


def test_an_alarm_that_comes_between_is_obeyed(release, monkeypatch):
    once(monkeypatch, lambda: release.halt("a test"))
    assert set(release.assign(KEYS)) == {"old"}
    assert release.history().steps[0].new.rows == 0


def test_a_step_that_begins_between_is_the_step_of_the_rows(release, monkeypatch):
    once(monkeypatch, release.advance)
    release.assign(KEYS)
    first, second = release.history().steps
    assert first.old.rows + first.new.rows == 0
    assert second.old.rows + second.new.rows == len(KEYS)


def test_keys_that_another_call_stores_between_are_not_stored_twice(release, monkeypatch):
    answers = []
    once(monkeypatch, lambda: answers.extend(release.assign(KEYS[20:40])))
    assert release.assign(KEYS)[20:40] == answers
    step = release.history().steps[0]
    assert step.old.rows + step.new.rows == len(KEYS)


def test_silence_that_begins_with_the_last_keys_stops_the_next_ones():
    release = tether.Release(
        "sqlite://", {"harm": 0.45}, old={"harm": np.zeros(500)}, max_silence=30
    )
    assert "new" in release.assign(KEYS)
    assert set(release.assign([f"later {k}" for k in range(20)])) == {"old"}


def test_no_keys_are_no_answers(release):
    assert release.assign([]) == []
    assert release.observe([], []) == 0
