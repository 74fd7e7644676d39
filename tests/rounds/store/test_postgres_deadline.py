"""Calls to a frozen PostgreSQL server come back, and work again when it does."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
import sqlalchemy as sql
from sqlalchemy import exc

from tests.rounds.frozen_processes import PATIENCE_SECONDS, answer, frozen, server_pids

pytest.importorskip("psycopg")
from tether.rounds.store import deadline, postgres_deadline

PASSED = "no answer within the deadline"


@pytest.fixture
def engine(postgres_url):
    engine = new_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(sql.text("CREATE TABLE rows (number BIGINT, content BYTEA)"))
    yield engine
    engine.dispose()


def new_engine(url, seconds=2.0):
    engine = sql.create_engine(url)
    postgres_deadline.install(engine, seconds)
    return engine


@contextmanager
def transaction(engine, seconds):
    with deadline.within(seconds), engine.connect() as connection, connection.begin():
        yield connection


def pid_of(connection):
    return connection.scalar(sql.select(sql.func.pg_backend_pid()))


def count(engine):
    with transaction(engine, PATIENCE_SECONDS) as connection:
        return connection.scalar(sql.text("SELECT count(*) FROM rows"))


def insert(connection, number, content=b""):
    statement = sql.text("INSERT INTO rows VALUES (:number, :content)")
    connection.execute(statement, {"number": number, "content": content})


def fail_when_frozen(engine, step, seconds=0.5):
    """Freeze the backend inside of a transaction, take one step in it; the error."""

    def call():
        with deadline.within(PATIENCE_SECONDS), engine.connect() as connection:
            transaction = connection.begin()
            insert(connection, 1)
            stack = frozen([pid_of(connection)])
            stack.__enter__()
            stacks.append(stack)
            with deadline.within(seconds), transaction:
                step(connection)

    stacks = []
    try:
        error = answer(call)
        assert isinstance(error, exc.OperationalError), error
        return error, answer(lambda: count(engine))
    finally:
        for stack in stacks:
            stack.__exit__(None, None, None)


def test_a_statement_on_a_frozen_backend_ends_at_the_deadline_and_the_next_call_works(engine):
    error, rows = fail_when_frozen(engine, lambda connection: insert(connection, 2))
    assert "no answer within the deadline of 0.5 s" in str(error)
    assert error.connection_invalidated
    assert rows == 0
    assert count(engine) == 0


def test_a_commit_on_a_frozen_backend_ends_at_the_deadline(engine):
    error, _ = fail_when_frozen(engine, lambda connection: None)
    assert PASSED in str(error)
    assert error.connection_invalidated


def test_a_rollback_on_a_frozen_backend_ends_at_the_deadline(engine):
    def fail(_):
        raise ZeroDivisionError

    error, rows = fail_when_frozen(engine, fail)
    assert PASSED in str(error)
    assert isinstance(error.orig.__context__, ZeroDivisionError)
    assert rows == 0


def test_a_large_statement_that_a_frozen_backend_does_not_read_ends_at_the_deadline(engine):
    large = os.urandom(2**24)
    error, _ = fail_when_frozen(engine, lambda connection: insert(connection, 2, large))
    assert PASSED in str(error)


def test_a_pooled_connection_whose_backend_is_frozen_is_replaced_within_the_deadline(engine):
    with engine.connect() as connection:
        pid = pid_of(connection)
    with frozen([pid]):

        def call():
            with transaction(engine, PATIENCE_SECONDS) as connection:
                insert(connection, 1)
                return pid_of(connection)

        other = answer(call)
        assert isinstance(other, int), other
        assert other != pid
    assert count(engine) == 1


def test_a_server_that_is_frozen_as_a_whole_accepts_no_connection_and_no_call_hangs(
    server, engine, postgres_url
):
    fresh = new_engine(postgres_url)
    with frozen(server_pids(server)):
        for _ in range(3):
            for each in (engine, fresh):
                error = answer(lambda: count_within(each, 0.3))  # noqa: B023
                assert isinstance(error, exc.OperationalError), error
                assert PASSED in str(error)
        assert sum(each.name == "tether-connect" for each in threading.enumerate()) <= 2
        assert answer(engine.dispose) is None
    assert count(engine) == 0
    assert count(fresh) == 0
    fresh.dispose()


def count_within(engine, seconds):
    with transaction(engine, seconds) as connection:
        return connection.scalar(sql.text("SELECT count(*) FROM rows"))


def test_without_a_deadline_of_the_call_that_of_the_engine_counts(server, postgres_url):
    engine = new_engine(postgres_url, seconds=0.3)
    with deadline.within(PATIENCE_SECONDS):
        connection = engine.connect()
        pid = pid_of(connection)
    with connection:
        with frozen([pid]):
            error = answer(lambda: connection.execute(sql.text("SELECT 1")))
            assert "no answer within the deadline of 0.3 s" in str(error)
    with frozen(server_pids(server)):
        assert PASSED in str(answer(engine.connect))
    engine.dispose()


def test_a_connection_that_nobody_closed_is_rolled_back_or_closed(engine):
    pids = []

    def forget():
        connection = engine.connect()
        insert(connection, 1)
        pids.append(pid_of(connection))

    forget()
    with frozen(pids):
        assert isinstance(answer(gc.collect), int)
    assert count(engine) == 0


def test_an_answer_that_comes_in_drops_does_not_extend_the_deadline(engine):
    slow = "SELECT repeat('x', 10000), pg_sleep(0.01) FROM generate_series(1, 1000000)"

    def call():
        with transaction(engine, 1.0) as connection:
            connection.execute(sql.text(slow)).all()

    assert PASSED in str(answer(call))


def test_a_long_statement_without_a_deadline_may_take_as_long_as_it_takes(postgres_url):
    engine = new_engine(postgres_url, seconds=0.5)
    with transaction(engine, None) as connection:
        connection.execute(sql.text("SELECT pg_sleep(1)"))
    engine.dispose()


def test_the_server_ends_what_a_client_has_given_up_while_it_waits_for_a_lock(server, engine):
    wait = sql.text("SELECT pg_advisory_xact_lock(5)")
    with transaction(engine, PATIENCE_SECONDS) as holder:
        holder.execute(wait)
        mine = pid_of(holder)

        def call():
            with transaction(engine, 0.5) as connection:
                connection.execute(wait)

        assert PASSED in str(answer(call))
        name = engine.url.database
        query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> {mine}"
        end = time.monotonic() + PATIENCE_SECONDS
        while server.tell(query):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_name_that_is_looked_up_forever_ends_at_the_deadline(monkeypatch):
    found = threading.Event()

    def look_up(*_, **__):
        found.wait(PATIENCE_SECONDS)
        raise OSError("there is no such host")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    engine = new_engine("postgresql+psycopg://user@nowhere.invalid/name")
    assert PASSED in str(answer(lambda: count_within(engine, 0.2)))
    # the second call waits for the same attempt, and has its answer
    threading.Timer(0.1, found.set).start()
    assert "failed to resolve host" in str(answer(lambda: count_within(engine, PATIENCE_SECONDS)))
    engine.dispose()


def test_a_connection_that_comes_too_late_is_closed(monkeypatch):
    made, go = [], threading.Event()

    class Late:
        def close(self):
            made.append("closed")

    def connect(*_, **__):
        go.wait(PATIENCE_SECONDS)
        return Late()

    monkeypatch.setattr(postgres_deadline.DeadlineConnection, "connect", connect)
    connector = postgres_deadline.Connector(60)
    with deadline.within(0.05), pytest.raises(Exception, match=PASSED):
        connector.connect()
    go.set()
    end = time.monotonic() + PATIENCE_SECONDS
    while not made:
        assert time.monotonic() < end
        time.sleep(0.01)
    with deadline.within(60):
        assert isinstance(connector.connect(), Late)
    with deadline.within(1e-9), pytest.raises(Exception, match=PASSED):
        connector.connect()


def test_a_child_process_makes_its_own_attempts(monkeypatch):
    monkeypatch.setattr(
        postgres_deadline.DeadlineConnection, "connect", lambda *_, **__: time.sleep(0.3)
    )
    connector = postgres_deadline.Connector(60)
    with deadline.within(0.01), pytest.raises(Exception, match=PASSED):
        connector.connect()
    assert len(connector._given_up) == 1
    postgres_deadline._forget_attempts_of_the_parent()
    assert connector._given_up == []


@pytest.mark.slow
def test_frozen_backends_under_load_cost_no_confirmed_row_and_no_call_hangs(server, engine):
    """Four threads write while backends are stopped and continued, all of them in the end."""
    threads, confirmed, failed = 4, [], []
    numbers, stop = iter(range(10**9)), threading.Event()

    def work():
        while not stop.is_set():
            number = next(numbers)
            started = time.monotonic()
            try:
                with transaction(engine, 2.0) as connection:
                    insert(connection, number)
                confirmed.append((number, time.monotonic() - started))
            except exc.SQLAlchemyError as error:
                failed.append((number, time.monotonic() - started, str(error)))

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    rng = np.random.default_rng(8)
    name = engine.url.database
    query = f"SELECT array_agg(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    for turn in range(8):
        backends = [pid for pid in server.tell(query) or [] if rng.random() < 0.7]
        pids = server_pids(server) if turn % 4 == 3 else backends
        known = len(confirmed) + len(failed)
        with frozen(pids):
            time.sleep(0.5)
            if turn in (3, 6):  # until calls have failed
                wait_until(lambda: len(confirmed) + len(failed) > known + threads)  # noqa: B023
        known = len(confirmed)
        wait_until(lambda: len(confirmed) > known + 10)  # noqa: B023
    stop.set()
    for worker in workers:
        worker.join(PATIENCE_SECONDS)
        assert not worker.is_alive()
    assert failed
    known = (PASSED, "connection timeout expired")
    assert [text for *_, text in failed if not any(each in text for each in known)] == []
    assert max(seconds for _, seconds, *_ in [*confirmed, *failed]) < PATIENCE_SECONDS
    with transaction(engine, PATIENCE_SECONDS) as connection:
        stored = list(connection.scalars(sql.text("SELECT number FROM rows")))
    assert len(stored) == len(set(stored))
    assert {number for number, _ in confirmed} <= set(stored)
    assert set(stored) <= {number for number, *_ in [*confirmed, *failed]}


def wait_until(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
