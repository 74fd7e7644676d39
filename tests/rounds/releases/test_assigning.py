"""Assignments while something else happens: nothing is stored that no longer holds."""

from __future__ import annotations

import sqlite3
import time

import numpy as np
import pytest
import sqlalchemy as sql

import tether
from tests.runs.frozen_processes import answer, frozen
from tether.rounds import verify_store
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

    def look_and_act(self, *given):
        found = look(self, *given)
        if not done:
            done.append(True)
            act()
        return found

    monkeypatch.setattr(Assigner, "_look", look_and_act)


def test_an_alarm_that_comes_between_is_obeyed(release, monkeypatch):
    once(monkeypatch, lambda: release.halt("a test"))
    assert set(release.assign(KEYS)) == {"old"}
    assert release.history().steps[0].new.rows == 0


def open_with_fallback(url, **changed):
    given = {"guardrails": {"harm": 0.45}, "old": {"harm": np.zeros(500)}, "salt": b"a"}
    return tether.Release(url, **given | {"fallback": "old", "deadline": 0.3} | changed)


def locked(url):
    """Hold the write lock of an SQLite file, as a stuck process would."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def wait_for_the_next_try(release):
    while release._outage.is_believed:
        time.sleep(0.01)


def test_the_old_system_answers_without_a_row_while_the_store_is_stuck(sqlite_url):
    with open_with_fallback(sqlite_url) as release:
        first = release.assign(KEYS[:20])
        assert set(first) == {"old", "new"}
        stuck = locked(sqlite_url)
        assert release.assign(KEYS) == ["old"] * 50  # also those of the new system
        assert [release.assign(key) for key in KEYS[:5]] == ["old"] * 5
        stuck.close()
        wait_for_the_next_try(release)
        step = release.history().steps[0]
        assert step.old.rows + step.new.rows == 20
        again = release.assign(KEYS)
        assert again[:20] == first
        assert "new" in again[20:]
    assert verify_store(sqlite_url).ok


def test_a_frozen_backend_is_answered_for_by_the_old_system(postgres_url):
    with open_with_fallback(postgres_url, deadline=2) as release:
        first = release.assign(KEYS[:20])
        with release._store.reading() as connection:
            pid = connection.connection.driver_connection.info.backend_pid
            query = sql.text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
            pids = {pid, *connection.scalars(query)}
        with frozen(pids), frozen([_postmaster(pid)]):
            assert answer(lambda: release.assign(KEYS)) == ["old"] * 50
            assert answer(lambda: release.assign(KEYS[0])) == "old"
        wait_for_the_next_try(release)
        assert release.assign(KEYS)[:20] == first
    assert verify_store(postgres_url).ok


def _postmaster(backend):
    """The process that would open another connection."""
    with open(f"/proc/{backend}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])
