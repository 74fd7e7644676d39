"""Statements and locks of SQLite end at the deadline."""

import sqlite3
import threading
import time
from contextlib import contextmanager

import pytest
import sqlalchemy as sql
from sqlalchemy import exc

from tests.rounds.frozen_processes import PATIENCE_SECONDS, answer
from tether.rounds.store import deadline, sqlite_deadline

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def engine(sqlite_url):
    engine = new_engine(sqlite_url)
    with engine.begin() as connection:
        connection.execute(sql.text("CREATE TABLE rows (number BIGINT)"))
    yield engine
    engine.dispose()


def new_engine(url, journal="WAL"):
    engine = sql.create_engine(url)

    @sql.event.listens_for(engine, "connect")
    def set_up(driver, _):
        driver.isolation_level = None
        if journal:
            driver.execute(f"PRAGMA journal_mode={journal}").fetchall()

    sqlite_deadline.install(engine)
    return engine


@contextmanager
def transaction(engine, seconds, writes=True):
    with deadline.within(seconds), engine.connect() as connection:
        connection = connection.execution_options(tether_writes=writes)
        with connection.begin():
            yield connection


def insert(connection):
    connection.execute(sql.text("INSERT INTO rows VALUES (1)"))


def count(engine):
    with transaction(engine, None, writes=False) as connection:
        return connection.scalar(sql.text("SELECT count(*) FROM rows"))


def write_within(engine, seconds):
    with transaction(engine, seconds) as connection:
        insert(connection)


def test_a_writer_that_is_stuck_is_waited_for_until_the_deadline(engine):
    with transaction(engine, None) as stuck:
        insert(stuck)
        error = answer(lambda: write_within(engine, 0.2))
        assert isinstance(error, exc.OperationalError)
        assert "no answer within the deadline of 0.2 s (database is locked)" in str(error)
        assert count(engine) == 0  # readers do not wait
    write_within(engine, 0.2)
    assert count(engine) == 2


def test_a_writer_that_ends_in_time_is_waited_for(engine):
    ready = threading.Event()

    def hold():
        with transaction(engine, None) as connection:
            insert(connection)
            ready.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait(PATIENCE_SECONDS)
    write_within(engine, PATIENCE_SECONDS)
    thread.join()
    assert count(engine) == 2


def test_a_long_statement_is_interrupted_at_the_deadline_and_nothing_is_stored(engine):
    def call():
        with transaction(engine, 0.2) as connection:
            insert(connection)
            connection.execute(sql.text(ENDLESS))

    error = answer(call)
    assert isinstance(error, exc.OperationalError)
    assert "no answer within the deadline of 0.2 s (interrupted)" in str(error)
    assert count(engine) == 0


def test_a_long_write_is_interrupted_and_nothing_is_stored(engine):
    def call():
        with transaction(engine, 0.2) as connection:
            insert(connection)
            connection.execute(sql.text(f"INSERT INTO rows {ENDLESS}"))

    assert "(interrupted)" in str(answer(call))
    assert count(engine) == 0
    write_within(engine, PATIENCE_SECONDS)
    assert count(engine) == 1


def test_a_rollback_after_the_deadline_works(engine):
    def call():
        with transaction(engine, 0.05) as connection:
            insert(connection)
            time.sleep(0.1)
            raise ZeroDivisionError

    assert isinstance(answer(call), ZeroDivisionError)
    assert count(engine) == 0


def test_other_errors_stay_as_they_are(engine):
    error = answer(lambda: execute(engine, "SELECT * FROM missing"))
    assert "no such table" in str(error)
    assert "deadline" not in str(error)


def execute(engine, statement):
    with transaction(engine, PATIENCE_SECONDS) as connection:
        connection.execute(sql.text(statement))


def test_an_error_other_than_a_lock_ends_the_wait_at_once(tmp_path):
    (tmp_path / "other").write_bytes(b"not a database" * 1000)
    engine = new_engine(f"sqlite:///{tmp_path / 'other'}", journal=None)
    error = answer(lambda: write_within(engine, 10 * PATIENCE_SECONDS))
    assert isinstance(error, exc.DatabaseError), error
    assert "file is not a database" in str(error)
    engine.dispose()


@pytest.fixture
def being_made(tmp_path):
    """A new file without a write-ahead log that another process is writing to, and its writer."""
    path = tmp_path / "new.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("CREATE TABLE rows (number BIGINT)").close()
    writer.execute("BEGIN IMMEDIATE").close()
    yield path, writer
    writer.close()


def test_the_write_ahead_log_waits_for_a_process_that_makes_the_store(being_made, monkeypatch):
    path, writer = being_made

    def uniform(low, _):  # what is slept: the writer ends while it is waited for
        if writer.in_transaction:
            writer.execute("COMMIT").close()
        return low

    monkeypatch.setattr(sqlite_deadline.random, "uniform", uniform)
    opened = sqlite3.connect(path)
    with deadline.within(PATIENCE_SECONDS):
        sqlite_deadline.use_wal(opened, None)
    assert opened.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    opened.close()


def test_the_write_ahead_log_is_not_waited_for_beyond_the_deadline(being_made):
    path, _ = being_made
    opened = sqlite3.connect(path)
    with deadline.within(0.05), pytest.raises(sqlite3.OperationalError, match="locked"):
        sqlite_deadline.use_wal(opened, None)
    opened.close()
