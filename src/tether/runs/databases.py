"""From a path or a URL to a database, SQLite or PostgreSQL, and what differs between the two."""

from __future__ import annotations

import hashlib
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy import exc, pool

from tether._core.extras import require
from tether._core.files import URL, redact_text
from tether.runs.errors import StoreError

Statement = tuple[str, Sequence[Any]]
"""A statement in plain SQL, and the values for its question marks."""
Rows = list[tuple[Any, ...]]
OWNER_ALONE = 0o600
"""The mode of a new file: its owner may read and write it."""
QUIET = {"hide_parameters": True}
"""Errors and logs show statements, and no keys or contexts."""
SYNCHRONOUS = "FULL"
"""When SQLite waits for the disk: before every commit returns."""


class Database:
    """A database by its path or URL; "sqlite://" is one in memory."""

    def __init__(self, url: str | Path, *, create: bool, deadline: float) -> None:
        parsed = _parse(url)
        self.is_sqlite = parsed.drivername in ("sqlite", "sqlite+pysqlite")
        self.in_memory = self.is_sqlite and parsed.database in (None, "", ":memory:")
        self.deadline = deadline
        self._url = parsed.render_as_string(hide_password=False)
        shown = parsed.set(query={}).render_as_string()  # a password can be in the query, too
        self.name = shown if "://" in str(url) else str(url)
        self.file = Path(str(parsed.database)) if self.is_sqlite and not self.in_memory else None
        if self.is_sqlite:
            self.engine = self._sqlite(parsed, create)
        elif parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
            self.engine = self._postgresql(parsed)
            self._begin = _BEGIN.format(limit=f"{max(1, int(1000 * deadline))}ms")
        else:
            raise ValueError(
                f"store must be SQLite or PostgreSQL (with psycopg), got {parsed.drivername!r}"
            )
        self.failures = exc.SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error

    def _sqlite(self, url: sql.URL, create: bool) -> sql.Engine:
        if self.file is not None:
            if not create and not self.file.is_file():
                raise StoreError(f"there is no store {self.file}")
            if not self.file.parent.is_dir():
                raise StoreError(
                    f"could not open {self.file}: there is no folder {self.file.parent}"
                )
            if create:
                with suppress(OSError):  # what cannot be created is for SQLite to say
                    self.file.touch(OWNER_ALONE)
        kind = pool.StaticPool if self.in_memory else pool.NullPool
        options: dict[str, Any] = {"timeout": self.deadline, "check_same_thread": False}
        options["isolation_level"] = None  # transactions are begun below
        engine = sql.create_engine(url, connect_args=options, poolclass=kind, **QUIET)

        def prepare(driver: Any, _: Any) -> None:
            if create and not self.in_memory:
                _write_ahead(driver, self.deadline)
            driver.execute(f"PRAGMA synchronous={SYNCHRONOUS}").close()

        sql.event.listen(engine, "connect", prepare)
        return engine

    def _postgresql(self, url: sql.URL) -> sql.Engine:
        require("a PostgreSQL store", "psycopg")
        seconds = max(1, round(self.deadline))
        options = {
            "connect_timeout": seconds,
            "keepalives_idle": seconds,
            "keepalives_interval": 1,
            "keepalives_count": 3,
            "tcp_user_timeout": int(1000 * self.deadline),
        }
        named = url.set(drivername="postgresql+psycopg")
        how: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "connect_args": options}
        return sql.create_engine(named, poolclass=pool.NullPool, **how, **QUIET)

    def run(self, connection: sql.Connection, *statements: Statement) -> Rows:
        """The rows that the last of some statements gives; PostgreSQL gets all of them at once.

        It takes the driver by itself: what SQLAlchemy does for a statement takes longer than most
        statements of a run. Values are sent beside a statement, so that no log of a server quotes
        them, and nothing is prepared: a plan could be that of an empty log.
        """
        driver: Any = connection.connection.driver_connection
        if self.is_sqlite:
            for each in statements:
                cursor = driver.execute(*each)
            return list(cursor.fetchall())
        with driver.pipeline() if len(statements) > 1 else nullcontext():
            for query, values in statements:
                text = query.replace("?", "%s")
                cursor = driver.execute(text, values or None, prepare=False)
        while cursor.nextset():
            pass
        return cursor.fetchall() if cursor.description else []

    def begin(self, connection: sql.Connection, query: str = "SELECT 1") -> Rows:
        """Begin a transaction without any other writer; the rows of a query without values.

        It sees everything that was committed before; closing the connection rolls it back.
        """
        if not self.is_sqlite:  # all in one trip
            return self.run(connection, (f"{self._begin};{query}", ()))
        self.run(connection, ("BEGIN IMMEDIATE", ()))
        return self.run(connection, (query, ()))

    def commit(self, connection: sql.Connection, *last: Statement) -> None:
        """Commit a transaction, after some last statements."""
        self.run(connection, *last, ("COMMIT", ()))

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A snapshot on a connection of its own; not for a database in memory."""
        with self.errors("read"), self.engine.connect() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN")
            else:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    def interrupt(self, connection: sql.Connection) -> None:
        """End whatever a connection waits for, from another thread."""
        with suppress(Exception):
            driver: Any = connection.connection.driver_connection
            if self.is_sqlite:
                driver.interrupt()
            else:  # a frozen server answers nothing: the wait ends with the socket
                with socket.socket(fileno=os.dup(driver.fileno())) as held:
                    held.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def errors(self, operation: str) -> Iterator[None]:
        """Turn the driver's exceptions into one readable `StoreError`."""
        try:
            yield
        except self.failures as error:
            origin = getattr(error, "orig", None) or error
            # what else PostgreSQL says of a statement quotes its values
            told = getattr(getattr(origin, "diag", None), "message_primary", None)
            cause = str(told or origin).replace(self._url, self.name)
            message = f"could not {operation} {self.name}: {redact_text(' '.join(cause.split()))}"
            if operation == "write":
                message += ". Nothing was stored; repeat the call when the store is available again"
            raise StoreError(message) from (None if told else error)


def _write_ahead(driver: Any, seconds: float) -> None:
    """Turn the write-ahead log on; SQLite does not wait for others that do the same just now."""
    until = time.monotonic() + seconds
    while True:
        try:
            driver.execute("PRAGMA journal_mode=WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(0.01)


def _parse(url: str | Path) -> sql.URL:
    if not isinstance(url, (str, Path)) or not str(url):
        raise TypeError(f"store must be a path or a database URL, got {url!r}")
    text = str(url)
    if "://" not in text:  # a path, whatever characters it has
        return sql.URL.create("sqlite", database=text)
    with suppress(exc.ArgumentError, ValueError):  # no message may show a password
        if URL.fullmatch(text):
            return sql.make_url(text)
    raise ValueError("store must be a path or a database URL, its parts percent-encoded")


_KEY = int.from_bytes(hashlib.blake2b(b"tether events", digest_size=4).digest(), "big") >> 1
_BEGIN = (  # what waits for the lock sees what was committed meanwhile
    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT set_config('lock_timeout', '{limit}', true), "
    "set_config('idle_in_transaction_session_timeout', '{limit}', true), "
    f"pg_advisory_xact_lock({_KEY}, hashtext(current_schema()))"
)
