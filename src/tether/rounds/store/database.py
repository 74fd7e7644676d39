"""The store: every action, loss, round and alarm, durable once the call that wrote it returns.

One transaction per call, one writer at a time: SQLite by its own lock, PostgreSQL by an advisory
lock. So numbers are assigned without gaps, and what a reader has seen up to a number never changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import sqlalchemy as sql
from sqlalchemy import exc, pool

from tether.rounds.errors import StoreError
from tether.rounds.store import schema

LOCK_TIMEOUT_SECONDS = 60
"""How long a writer waits for another one."""
ADVISORY_LOCK_ID = 0x7E74E4
"""The advisory lock that writers take in PostgreSQL."""

_open_engines: WeakSet[sql.Engine] = WeakSet()
"""A child process must not use its parent's connections."""


class Store:
    """A database given by a URL, such as "sqlite:///run.db" or "postgresql+psycopg://host/name".

    A path alone means SQLite. With `create=False` a missing store is an error, and a readable store
    of an older version is left as it is until something is written: another process may be using
    it.
    """

    def __init__(self, url: str | Path, *, create: bool = True) -> None:
        self._engine = _make_engine(url, create)
        self.name = _without_password(self._engine.url)
        self._version = schema.VERSION
        try:
            self._open(create)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every connection to the database."""
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """A transaction without any other writer: all of it is kept, or nothing."""
        with self._store_errors("write"), self._transaction(writes=True) as connection:
            version = read_version(connection)
            if version != self._version:
                raise StoreError(
                    f"{self.name} was migrated to version {version} while this process had it open "
                    f"at version {self._version}: restart the process with the newer tether"
                )
            if version != schema.VERSION:
                schema.prepare(connection, version)
                self._version = schema.VERSION
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A consistent snapshot of the store, whatever is written meanwhile."""
        with self._store_errors("read"), self._transaction() as connection:
            yield connection

    def _open(self, create: bool) -> None:
        with self._store_errors("open"), self._transaction() as connection:
            version = find_version(connection)
        if version is None and not create:
            raise StoreError(f"{self.name} holds no run of tether")
        if version is not None and not create and schema.readable(version):
            self._version = version
            return
        if version != schema.VERSION:  # another process may migrate it first: look again
            with self._store_errors("open"), self._transaction(writes=True) as connection:
                schema.prepare(connection, find_version(connection))

    @contextmanager
    def _transaction(self, writes: bool = False) -> Iterator[sql.Connection]:
        with self._engine.connect() as connection:
            options: dict[str, Any] = {"tether_writes": writes}
            is_postgresql = connection.dialect.name == "postgresql"
            if is_postgresql:  # a writer must see what was committed while it waited for the lock
                options["isolation_level"] = "READ COMMITTED" if writes else "REPEATABLE READ"
            connection = connection.execution_options(**options)
            body_done = False
            try:
                with connection.begin():
                    if writes and is_postgresql:
                        limit = f"{LOCK_TIMEOUT_SECONDS}s"
                        timeout = sql.func.set_config("lock_timeout", limit, True)
                        lock = sql.func.pg_advisory_xact_lock(ADVISORY_LOCK_ID)
                        connection.execute(sql.select(timeout, lock))
                    yield connection
                    body_done = True
            except exc.DBAPIError as error:
                if body_done and writes and error.connection_invalidated:
                    raise StoreError(
                        f"the connection to {self.name} was lost during the commit: the last call "
                        f"may or may not have been stored; check `run.round` and `run.pending()`"
                    ) from error
                raise

    @contextmanager
    def _store_errors(self, operation: str) -> Iterator[None]:
        """Turn the driver's exceptions into one readable `StoreError`."""
        try:
            yield
        except exc.IntegrityError:
            raise
        except exc.SQLAlchemyError as error:
            cause = " ".join(str(getattr(error, "orig", None) or error).split())
            message = f"could not {operation} {self.name}: {cause}"
            if operation == "write":
                message += ". Nothing was stored; repeat the call when the store is available again"
            raise StoreError(message) from error


def find_version(connection: sql.Connection) -> int | None:
    """The version of a store; None where there is none yet."""
    for name in (schema.settings.name, schema.OLD_SETTINGS_TABLE):
        if sql.inspect(connection).has_table(name):
            return read_version(connection, name)
    return None


def read_version(connection: sql.Connection, table_name: str = schema.settings.name) -> int:
    """The version of an existing store."""
    table = sql.table(table_name, sql.column("name"), sql.column("value"))
    version = connection.scalar(sql.select(table.c.value).where(table.c.name == "version"))
    if version is None or not version.isdecimal():
        raise StoreError(
            f"the database has a table {table_name} that was not created by tether: choose "
            f"another database"
        )
    return int(version)


def _make_engine(url: str | Path, create: bool) -> sql.Engine:
    text = str(url).strip()
    if not isinstance(url, (str, Path)) or not text:
        raise ValueError(f"store must be a path or a database URL, got {url!r}")
    if "://" not in text:
        text = f"sqlite:///{text}"
    try:
        parsed = sql.make_url(text)
    except (exc.ArgumentError, ValueError):  # neither error nor message may show a password
        hidden = re.sub(r"(://[^:/@]*:)[^@]*@", r"\1***@", text)
        raise ValueError(f"store must be a path or a database URL, got {hidden!r}") from None
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        try:
            engine = sql.create_engine(
                parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True
            )
        except ImportError as error:
            raise ImportError(
                f"a PostgreSQL store needs psycopg: pip install 'tether[postgres]' ({error})"
            ) from error
        _open_engines.add(engine)
        return engine
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise ValueError(
            f"store must be SQLite or PostgreSQL (with psycopg), got {parsed.drivername!r}"
        )
    in_memory = parsed.database in (None, "", ":memory:")
    if not in_memory and not create and not Path(str(parsed.database)).is_file():
        raise StoreError(f"there is no store {parsed.database}")
    options: dict[str, Any] = {"poolclass": pool.StaticPool} if in_memory else {}
    engine = sql.create_engine(parsed, connect_args={"timeout": LOCK_TIMEOUT_SECONDS}, **options)
    sql.event.listen(engine, "connect", _set_up_sqlite)
    if create:  # a reader leaves another program's database as it is
        sql.event.listen(engine, "connect", _use_wal)
    sql.event.listen(engine, "begin", _begin_sqlite)
    if not in_memory:
        _open_engines.add(engine)
    return engine


def _without_password(url: sql.URL) -> str:
    secret = [key for key in url.query if "password" in key]
    return url.difference_update_query(secret).render_as_string(hide_password=True)


def _leave_connections_to_the_parent() -> None:
    for engine in list(_open_engines):
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_connections_to_the_parent)


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin in `_begin_sqlite`
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _use_wal(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL").fetchall()


def _begin_sqlite(connection: sql.Connection) -> None:
    writes = connection.get_execution_options().get("tether_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
