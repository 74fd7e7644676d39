"""Assignments while something else happens: nothing is stored that no longer holds."""

from __future__ import annotations

import sqlite3
import time

import numpy as np
import pytest
import sqlalchemy as sql

import tether
from tests.rounds.frozen_processes import answer, frozen
from tether.rounds import StoreError, TamperedError, verify_store
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


@pytest.mark.parametrize("back", [[7, 8, 59], range(60)])
def test_keys_that_come_back_after_batches_of_new_ones_have_no_second_row(store_url, back):
    log = {"harm": np.zeros(500)}
    with tether.Release(store_url, {"harm": 0.45}, old=log, keys_per_step=70, salt=b"a") as release:
        for batch in range(5):  # after three of them nobody asks for all keys any more
            answers = release.assign([f"key {batch} {k}" for k in range(60)])
        again = [f"key {4 if k in back else 5} {k}" for k in range(60)]
        systems = release.assign(again)
        assert release.assign(again) == systems
        assert [systems[k] for k in back] == [answers[k] for k in back]
        rows = sum(each.old.rows + each.new.rows for each in release.history().steps)
        assert rows == 5 * 60 + 60 - len(back)
    assert verify_store(store_url).ok


def test_silence_that_begins_with_the_last_keys_stops_the_next_ones():
    release = tether.Release(
        "sqlite://", {"harm": 0.45}, old={"harm": np.zeros(500)}, max_silence=30
    )
    assert "new" in release.assign(KEYS)
    assert set(release.assign([f"later {k}" for k in range(20)])) == {"old"}


def test_no_keys_are_no_answers(release):
    assert release.assign([]) == []
    assert release.observe([], []) == 0


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


def test_keys_that_were_stored_before_the_store_was_stuck_keep_their_answer(
    sqlite_url, monkeypatch
):
    """A call that ends one step and cannot begin the next answers with what it has stored."""
    with open_with_fallback(sqlite_url, keys_per_step=20) as release:

        def fail(self):
            raise StoreError("the store was unavailable")

        monkeypatch.setattr("tether.rounds.releases.beginning.StepKeeper.advance_if_due", fail)
        systems = release.assign(KEYS)
        assert "new" in systems[:20]
        assert systems[20:] == ["old"] * 30


def test_a_step_that_could_not_begin_is_remembered_as_an_outage(sqlite_url):
    with open_with_fallback(sqlite_url, keys_per_step=20) as release:
        release.assign(KEYS[:20])
        stuck = locked(sqlite_url)
        assert release.assign(KEYS[20]) == "old"
        assert release._outage.is_believed  # so that the next calls do not wait for the store
        stuck.close()
        wait_for_the_next_try(release)
        release.assign(KEYS[20])
        assert release.step.number == 2


def test_without_a_fallback_a_stuck_store_is_an_error(sqlite_url):
    with open_with_fallback(sqlite_url, fallback=None) as release:
        stuck = locked(sqlite_url)
        with pytest.raises(StoreError, match="could not write"):
            release.assign(KEYS)
        stuck.close()
        assert release.history().steps[0].old.rows == 0


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


def test_a_closed_release_and_a_store_that_was_tampered_with_are_errors(sqlite_url, monkeypatch):
    release = open_with_fallback(sqlite_url)

    def tampered(*_):
        raise TamperedError("a test")

    with monkeypatch.context() as patched:
        patched.setattr("tether.rounds.releases.assigning.read_key_rows", tampered)
        with pytest.raises(TamperedError):
            release.assign("ann")
    release.close()
    with pytest.raises(StoreError, match="closed"):
        release.assign("ann")


def test_another_fallback_is_refused():
    with pytest.raises(ValueError, match="fallback must be one of 'old', got 'new'"):
        open_with_fallback("sqlite://", fallback="new")
