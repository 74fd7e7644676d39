"""Stores that are frozen, full, gone or late; and clocks that are wrong."""

from __future__ import annotations

import sqlite3
import traceback
from datetime import timedelta

import numpy as np
import pytest

from tests.runs.jobs import wait_until
from tether.runs import Release, event_log
from tether.runs.body import pack
from tether.runs.errors import StoreError

GUARDRAILS = {"error": 0.1}


def open_release(store, **more):
    return Release(store, GUARDRAILS, **({"old": {"error": 0.02}, "deadline": 1.0} | more))


def rows_of(release):
    return sum(sum(unit.rows.values()) for unit in release.history().units)


def test_what_waits_in_the_outbox_outlives_the_process_and_is_delivered_once(sqlite_url, tmp_path):
    outbox, store = tmp_path / "outbox", sqlite_url.removeprefix("sqlite:///")
    with open_release(sqlite_url, fallback=outbox, deadline=0.3) as release:
        release.assign("ann")
        blocker = sqlite3.connect(store, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        assert release.assign(["bob", "carl"]) == ["old", "old"]
        release.observe(["bob"], {"error": [1.0]}, system="old")
        with pytest.raises(StoreError, match="outbox"):
            open_release("sqlite://", fallback=outbox)
    kept = outbox.read_bytes()
    blocker.execute("ROLLBACK")
    for _ in range(2):  # the second time it was delivered before, and the file did not know
        outbox.write_bytes(kept)
        with open_release(sqlite_url, fallback=outbox) as release:
            wait_until(lambda: not len(release._log.outbox))
            assert rows_of(release) == 3
            assert release.history().units[-1].means["old"]["error"].count == 1
            assert release.verify() == []


def test_a_delivery_that_the_store_interrupts_is_made_again(sqlite_url, tmp_path, monkeypatch):
    with open_release(sqlite_url, fallback=tmp_path / "outbox", deadline=0.3) as release:
        find, broken = event_log.Transaction.find, [True]

        def interrupted(transaction, names):
            if broken and names[0].startswith(b"k"):
                broken.clear()
                raise sqlite3.OperationalError("interrupted")
            return find(transaction, names)

        blocker = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        assert release.assign("bob") == "old"
        monkeypatch.setattr(event_log.Transaction, "find", interrupted)
        blocker.execute("ROLLBACK")
        wait_until(lambda: not broken and not len(release._log.outbox))
        assert rows_of(release) == 1


def test_a_store_that_is_down_answers_at_once_and_comes_back(server, postgres_url, caplog):
    end = "SELECT pg_terminate_backend(pg_backend_pid())", ()
    with open_release(postgres_url, fallback="old") as release:
        for _ in range(2):  # the second connection has not looked for a cache
            with pytest.raises(StoreError, match="terminating connection"):
                release.submit(lambda t: t.log.database.run(t.connection, end))
        release.assign("ann")
        server.stop()
        try:
            for k in range(1000):  # at once: not after a deadline each
                assert release.assign(f"c{k}") == "old"
        finally:
            server.start()
        wait_until(lambda: release._log.is_available)
        assert release.observe("c999", {"error": 0.0}) == 1  # which may still wait for the store
        wait_until(lambda: not len(release._log.outbox))
        assert not [each for each in caplog.records if each.name.startswith("sqlalchemy")]
        assert rows_of(release) == 1001
        assert release.history().units[-1].means["old"]["error"].count == 1
        assert release.verify() == []


def test_an_error_of_the_database_quotes_no_key(postgres_url):
    with open_release(postgres_url) as release:
        with release._log.database.engine.connect() as other:
            other.exec_driver_sql("ALTER TABLE tether_claims ADD CHECK (length(name) < 4)")
        with pytest.raises(StoreError, match="violates check constraint") as raised:
            release.assign("ann")
        assert b"kann".hex() not in "".join(traceback.format_exception(raised.value))


def test_statements_and_what_they_give_have_a_bounded_size(store_url):
    with open_release(store_url, deadline=60.0) as a, open_release(store_url) as b:
        log, sent, given = a._log.database, [], []
        if log.is_sqlite:  # the least that any takes
            least = sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999
            a.submit(lambda t: t.connection.connection.driver_connection.setlimit(*least))
        for database, run in ((log, log.run), (b._log.database, b._log.database.run)):

            def running(connection, *statements, run=run):
                values = [each for _, values in statements for each in values]
                sent.append(sum(len(each) for each in values if isinstance(each, bytes)))
                given.append(len(found := run(connection, *statements)))
                return found

            database.run = running
        body = pack({}, values=np.zeros(100_000))
        a.submit(lambda t: [t.append("scores", body) for _ in range(5)])
        a.submit(lambda t: [t.append("scores", pack({"k": k})) for k in range(1000)])
        keys = [f"key {k}" for k in range(2000)]
        assert b.assign(keys) == a.assign(keys)
        assert (rows_of(a), b.verify()) == (2000, [])
        assert max(sent) < 3 * len(body)
        assert 100 <= max(given) < 1000


def test_a_full_disk_stores_nothing_and_says_so_and_a_closed_release_refuses(sqlite_url):
    with open_release(sqlite_url) as release:
        release.assign("ann")
        release._log.submit(
            lambda t: t.connection.exec_driver_sql("PRAGMA max_page_count=20").fetchall()
        )
        with pytest.raises(StoreError, match="full"):
            release.assign([f"key {k} " + "x" * 100 for k in range(10_000)])
    with open_release(sqlite_url) as release:
        release.assign("bob")
        assert release.verify() == []
    with pytest.raises(StoreError, match="closed"):
        release.assign("ann")


class Clock:
    """What the processes of a test take for the time."""

    def __init__(self, monkeypatch):
        self.seconds = 1_800_000_000.0
        monkeypatch.setattr(event_log.time, "time_ns", lambda: int(self.seconds * 1e9))


def serve(release, name, count=200):
    keys = [f"{name}-{k}" for k in range(count)]
    systems = release.assign(keys)
    release.observe(keys, {"error": np.zeros(count)}, system=systems)


def test_steps_by_time_go_on_after_a_clock_that_ran_ahead(monkeypatch):
    clock = Clock(monkeypatch)
    with open_release("sqlite://", step=timedelta(minutes=1)) as release:
        clock.seconds += 61
        serve(release, "a")
        clock.seconds += 86_400  # a wrong clock begins a step in the future
        serve(release, "b")
        assert release.step.number == 2
        clock.seconds -= 86_400  # and is put right
        serve(release, "c")
        assert release.history().alarm.monitor == "clock"
        assert set(release.assign(["x", "y"])) == {"old"}
        release.resume("the clock is right again", actor="ann")
        before = release.step.number
        for name in "defg":
            clock.seconds += 61
            serve(release, name)
        assert release.step.number >= before + 3
        assert release.verify() == []


def test_clocks_that_differ_a_little_are_no_alarm(monkeypatch):
    clock = Clock(monkeypatch)
    with open_release("sqlite://", step=timedelta(minutes=1)) as release:
        for k in range(6):
            clock.seconds += 40 if k % 2 else -10
            serve(release, f"n{k}", 20)
        assert release.history().alarm is None
        assert len(release.history().units) > 1
        assert release.verify() == []
