"""Settings of the server that lose confirmed rows are named."""

import sqlite3
from contextlib import closing
from inspect import unwrap

import sqlalchemy as sql

from tether.rounds.store import engine
from tether.rounds.store.durability import durability_warnings


def warnings_of(url, statement=None):
    engine = sql.create_engine(url)
    with engine.connect() as connection:
        if statement:
            connection.execute(sql.text(statement))
        found = durability_warnings(connection)
    engine.dispose()
    return found


def test_settings_that_are_off_are_named_with_their_consequence(postgres_url):
    """The tests' own server runs without fsync and full_page_writes."""
    assert warnings_of(postgres_url) == (
        "the PostgreSQL server runs with fsync=off: a crash of the machine can lose or damage the "
        "whole database",
        "the PostgreSQL server runs with full_page_writes=off: a crash of the machine can damage "
        "the database",
    )


def test_synchronous_commit_of_the_session_the_database_and_the_url_counts(server, postgres_url):
    first = warnings_of(postgres_url, "SET synchronous_commit = off")[0]
    assert first.startswith("the PostgreSQL server runs with synchronous_commit=off: calls that")
    name = sql.make_url(postgres_url).database
    assert len(warnings_of(postgres_url)) == 2
    server.tell(f"ALTER DATABASE {name} SET synchronous_commit = off")
    assert warnings_of(postgres_url)[0] == first
    server.tell(f"ALTER DATABASE {name} SET synchronous_commit = local")
    assert len(warnings_of(postgres_url)) == 2
    assert warnings_of(f"{postgres_url}&options=-csynchronous_commit%3Doff")[0] == first


def test_sqlite_has_no_such_settings(sqlite_url):
    assert warnings_of(sqlite_url) == ()


def test_sqlite_waits_for_the_disk_with_every_commit():
    """Not in the tests: `sqlite_without_fsync` of tests/conftest.py wraps the function."""
    with closing(sqlite3.connect(":memory:")) as connection:
        unwrap(engine._set_up_sqlite)(connection, None)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        engine._set_up_sqlite(connection, None)
        assert connection.execute("PRAGMA synchronous").fetchone() == (0,)
