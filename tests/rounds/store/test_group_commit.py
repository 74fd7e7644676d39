"""Transactions that the database ends in favour of another one begin anew."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.rounds.postgres_server import name_of
from tether.rounds.errors import StoreError
from tether.rounds.store import schema
from tether.rounds.store.database import Store
from tether.rounds.store.group_commit import GroupCommit

PATIENCE_SECONDS = 60
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
def rival(server, postgres_url):
    """Another connection, which is never the one that ends when two wait for each other."""
    server.tell(f"ALTER DATABASE {name_of(postgres_url)} SET deadlock_timeout = '20ms'")
    where = f"host={server.folder} user=tether dbname={name_of(postgres_url)}"
    with psycopg.connect(where) as connection:
        connection.execute("SET deadlock_timeout = '600s'")
        yield connection


def deadlocked_write(server, begun):
    """Store "first", let the rival wait for it, and then wait for the rival's "second"."""

    def write(writer):
        add = schema.kept.insert()
        writer.connection.execute(add.values(name="first", value="ours"))
        begun.append(True)
        ends = time.monotonic() + PATIENCE_SECONDS
        while len(begun) == 1 and not server.tell(WAITING):
            assert time.monotonic() < ends
            time.sleep(0.002)
        writer.connection.execute(add.values(name="second", value="ours"))
        return "stored"

    return write


def race(server, url, rival, deadline):
    """What comes of a transaction that loses against the rival, and how often it was begun."""
    insert = f"INSERT INTO {schema.kept.name} VALUES (%s, 'theirs')"
    begun = []
    store = Store(url, deadline=deadline)
    commits = GroupCommit(store, lambda _: None)
    try:
        with ThreadPoolExecutor() as pool:
            rival.execute(insert, ["second"])
            result = pool.submit(commits.submit, deadlocked_write(server, begun))
            while not (begun or result.done()):
                time.sleep(0.002)
            rival.execute(insert, ["first"])  # until the other transaction is ended
            if deadline > 1:
                rival.rollback()
            return result.exception() or result.result(), len(begun)
    finally:
        rival.rollback()
        store.close()


def test_a_transaction_that_loses_a_deadlock_begins_anew(server, postgres_url, rival):
    assert race(server, postgres_url, rival, PATIENCE_SECONDS) == ("stored", 2)


def test_it_fails_if_the_deadline_has_passed(server, postgres_url, rival):
    found, _ = race(server, postgres_url, rival, 0.5)
    assert isinstance(found, StoreError)
    assert "Nothing was stored" in str(found)
