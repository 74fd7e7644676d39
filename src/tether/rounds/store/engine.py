"""From a path or a URL to a database engine, SQLite or PostgreSQL."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import sqlalchemy as sql
from sqlalchemy import exc, pool

from tether._core.files import is_well_formed, redact_url
from tether.rounds.errors import NoStoreError, StoreError
from tether.rounds.store import sqlite_deadline
from tether.rounds.store.store_files import store_text

OWNER_ALONE = 0o600
"""The mode of a new store: its owner may read and write it."""
CONNECTIONS = {"pool_size": 8, "max_overflow": 56}
"""How many connections a store keeps, and how many more its threads may use at once."""
_QUIET = {"hide_parameters": True}  # errors and logs show statements, and no keys or contexts

_open_engines: WeakSet[sql.Engine] = WeakSet()
"""A child process must not use its parent's connections."""


def make_engine(url: str | Path, *, create: bool, deadline: float) -> sql.Engine:
    """An engine for a path or a URL; without `create` a missing file is an error."""
    parsed = _parse(url)
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return _make_postgresql(parsed, deadline)
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise ValueError(
            f"store must be SQLite or PostgreSQL (with psycopg), got {parsed.drivername!r}"
        )
    return _make_sqlite(parsed, create, deadline)


def is_in_memory(engine: sql.Engine) -> bool:
    """Whether the database is gone when its only connection is closed."""
    return engine.dialect.name == "sqlite" and engine.url.database in (None, "", ":memory:")


def _parse(url: str | Path) -> sql.URL:
    text = store_text(url)
    if "://" not in text:  # a path, whatever characters it has
        return sql.URL.create("sqlite", database=text)
    try:
        if is_well_formed(text):
            return sql.make_url(text)
    except (exc.ArgumentError, ValueError):  # neither error nor message may show a password
        pass
    raise ValueError(f"store must be a path or a database URL, got {redact_url(text)!r}")


def _make_postgresql(url: sql.URL, deadline: float) -> sql.Engine:
    try:
        from tether.rounds.store import postgres_deadline

        named = url.set(drivername="postgresql+psycopg")
        engine = sql.create_engine(named, pool_timeout=deadline, **CONNECTIONS, **_QUIET)
    except ImportError as error:
        raise ImportError(
            f"a PostgreSQL store needs psycopg: pip install 'tether[postgres]' ({error})"
        ) from error
    postgres_deadline.install(engine, deadline)
    _open_engines.add(engine)
    return engine


def _make_sqlite(url: sql.URL, create: bool, deadline: float) -> sql.Engine:
    in_memory = url.database in (None, "", ":memory:")
    if not in_memory and not create and not Path(str(url.database)).is_file():
        raise NoStoreError(f"there is no store {url.database}")
    if not in_memory and create:
        folder = Path(str(url.database)).parent
        if not folder.is_dir():
            raise StoreError(f"could not open {url.database}: there is no folder {folder}")
        _create_file(str(url.database))
    options: dict[str, Any] = {"pool_timeout": deadline, **CONNECTIONS}
    if in_memory:
        options = {"poolclass": pool.StaticPool}
    # a connection is used by one thread at a time, not always the same one
    arguments = {"timeout": deadline, "check_same_thread": False}
    engine = sql.create_engine(url, connect_args=arguments, **options, **_QUIET)
    sqlite_deadline.install(engine)
    sql.event.listen(engine, "connect", _set_up_sqlite)
    if create:  # a reader leaves another program's database as it is
        sql.event.listen(engine, "connect", sqlite_deadline.use_wal)
    if not in_memory:
        _open_engines.add(engine)
    return engine


def _create_file(path: str) -> None:
    """Create the file, for its owner alone; what cannot be created is for SQLite to say."""
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ALONE))


def _leave_connections_to_the_parent() -> None:
    for engine in list(_open_engines):
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_connections_to_the_parent)


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin in `sqlite_deadline`
    connection.execute("PRAGMA synchronous=FULL").fetchall()
