"""Calls to a frozen PostgreSQL server come back, and work again when it does."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
import sqlalchemy as sql
from sqlalchemy import exc

from tests.runs.frozen_processes import PATIENCE_SECONDS, answer, frozen, server_pids

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


def test_a_commit_on_a_frozen_backend_ends_at_the_deadline(engine):
    error, _ = fail_when_frozen(engine, lambda connection: None)
    assert PASSED in str(error)
    assert error.connection_invalidated


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
