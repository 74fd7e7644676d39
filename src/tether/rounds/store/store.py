"""The store: every action, loss, round and alarm, durable once the call that wrote it returns.

One transaction a call, one writer at a time: SQLite by its own lock, PostgreSQL by an advisory one.
So numbers are given out without gaps, and what a reader has seen up to a number stays as it was.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray
from sqlalchemy import exc, pool

from tether._core import records
from tether._core.types import Floats
from tether.rounds.errors import StoreError
from tether.rounds.store import schema

BUSY = 60
"""Seconds to wait for another writer."""
LOCK = 0x7E74E4
"""The number of the advisory lock in PostgreSQL."""
FEW = 500
"""How many numbers go into one query at most."""
PART = 2**26
"""How many bytes of a column go into one row at most."""

_engines: WeakSet[sql.Engine] = WeakSet()
"""Open ones: a child process must not use its parent's connections."""


class Store:
    """A database behind a URL, such as "sqlite:///run.db" or "postgresql+psycopg://host/name".

    A path alone means SQLite. With `create=False` a store that is not there is an error, and one of
    an older version stays as it is until something is written: another process may serve from it.
    """

    def __init__(self, url: str | Path, *, create: bool = True) -> None:
        self._engine = _engine(url, create)
        self.name = _shown(self._engine.url)
        self._version = schema.VERSION
        try:
            self._open(create)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """One transaction that no other writer is beside: all of it is kept, or nothing."""
        with self._told("write"), self._transaction(writes=True) as connection:
            version = schema.read_version(connection)
            if version != self._version:
                raise StoreError(
                    f"{self.name} was brought to version {version} while this process had it open "
                    f"at version {self._version}: restart it with the tether that did that"
                )
            if version != schema.VERSION:
                schema.prepare(connection, version)
                self._version = schema.VERSION
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """One moment of the store, whatever is written meanwhile."""
        with self._told("read"), self._transaction() as connection:
            yield connection

    def _open(self, create: bool) -> None:
        with self._told("open"), self._transaction() as connection:
            version = schema.find_version(connection)
        if version is None and not create:
            raise StoreError(f"{self.name} holds no run of tether")
        if version is not None and not create and schema.readable(version):
            self._version = version
            return
        if version != schema.VERSION:  # someone else may do it first: look again
            with self._told("open"), self._transaction(writes=True) as connection:
                schema.prepare(connection, schema.find_version(connection))

    @contextmanager
    def _transaction(self, writes: bool = False) -> Iterator[sql.Connection]:
        with self._engine.connect() as connection:
            options: dict[str, Any] = {"tether_writes": writes}
            locked = connection.dialect.name == "postgresql"
            if locked:  # a writer must see what was kept while it waited for the lock
                options["isolation_level"] = "READ COMMITTED" if writes else "REPEATABLE READ"
            connection = connection.execution_options(**options)
            done = False
            try:
                with connection.begin():
                    if writes and locked:
                        timeout = sql.func.set_config("lock_timeout", f"{BUSY}s", True)
                        lock = sql.func.pg_advisory_xact_lock(LOCK)
                        connection.execute(sql.select(timeout, lock))
                    yield connection
                    done = True
            except exc.DBAPIError as error:
                if done and writes and error.connection_invalidated:
                    raise StoreError(
                        f"the connection to {self.name} was lost while the last call was being "
                        f"kept: it may have been or not; `run.round` and `run.pending()` tell"
                    ) from error
                raise

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """The database's complaint in one sentence, rather than its driver's."""
        try:
            yield
        except exc.IntegrityError:
            raise
        except exc.SQLAlchemyError as error:
            cause = " ".join(str(getattr(error, "orig", None) or error).split())
            said = f"could not {what} {self.name}: {cause}"
            if what == "write":
                said += (
                    ". Nothing of it was kept; the same call may be made again when the store is "
                    "back"
                )
            raise StoreError(said) from error


def read_terms(connection: sql.Connection) -> dict[str, Any]:
    """What the run was made with."""
    rows = connection.execute(sql.select(schema.terms.c.name, schema.terms.c.value))
    return {name: json.loads(value) for name, value in rows if name != "version"}


def write_terms(connection: sql.Connection, terms: dict[str, Any]) -> None:
    """Add to what the run was made with."""
    rows = [
        {"name": name, "value": json.dumps(records.encode(value))} for name, value in terms.items()
    ]
    connection.execute(schema.terms.insert(), rows)


def read_all(connection: sql.Connection, table: sql.Table) -> list[dict[str, Any]]:
    """A small table, in the order of its key; nothing of one that an older store lacks."""
    if not sql.inspect(connection).has_table(table.name):
        return []
    query = sql.select(table).order_by(*table.primary_key)
    return [dict(row) for row in connection.execute(query).mappings()]


def last(connection: sql.Connection, column: sql.Column[Any], *where: Any) -> int:
    """The largest number given out so far; 0 before the first."""
    return int(connection.scalar(sql.select(sql.func.max(column)).where(*where)) or 0)


def known(connection: sql.Connection, column: sql.Column[Any], numbers: Any) -> list[int]:
    """Those of the numbers that a column has."""
    found: list[int] = []
    for start in range(0, len(numbers), FEW):
        some = [int(number) for number in numbers[start : start + FEW]]
        found += connection.scalars(sql.select(column).where(column.in_(some)))
    return found


def read_column(connection: sql.Connection, number: int, name: str, start: int = 0) -> Floats:
    """A column of scores as it was written, its parts from `start` on put together: flat."""
    table = schema.columns
    query = (
        sql.select(table.c["values"])
        .where(table.c.round == number, table.c.name == name, table.c.start >= start)
        .order_by(table.c.start)
    )
    parts = b"".join(bytes(part) for part in connection.scalars(query))
    return np.frombuffer(parts, dtype="<f8").astype(np.float64, copy=False)


def write_column(
    connection: sql.Connection, number: int, name: str, start: int, values: NDArray[Any]
) -> None:
    """More of a column of scores, in as many parts as a database can hold it."""
    array = np.ascontiguousarray(values, dtype="<f8")
    step = max(1, PART * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), step):
        part = array[first : first + step]
        connection.execute(
            schema.columns.insert().values(
                round=number,
                name=name,
                start=start + first,
                count=len(part),
                values=part.tobytes(),
            )
        )


def _engine(url: str | Path, create: bool) -> sql.Engine:
    text = str(url).strip()
    if not isinstance(url, (str, Path)) or not text:
        raise ValueError(f"store must be a path or a database URL, got {url!r}")
    if "://" not in text:
        text = f"sqlite:///{text}"
    try:
        parsed = sql.make_url(text)
    except (exc.ArgumentError, ValueError):  # neither error nor message may show a password
        hidden = re.sub(r"(://[^:/@]*:)[^@]*@", r"\1***@", text)
        raise ValueError(f"store must be a database URL or a path, got {hidden!r}") from None
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        try:
            engine = sql.create_engine(
                parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True
            )
        except ImportError as error:
            raise ImportError(
                f"a PostgreSQL store needs psycopg: pip install 'tether[postgres]' ({error})"
            ) from error
        _engines.add(engine)
        return engine
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise ValueError(
            f"store must be SQLite or PostgreSQL (by psycopg), got {parsed.drivername!r}"
        )
    memory = parsed.database in (None, "", ":memory:")
    if not memory and not create and not Path(str(parsed.database)).is_file():
        raise StoreError(f"there is no store {parsed.database}")
    options: dict[str, Any] = {"poolclass": pool.StaticPool} if memory else {}
    engine = sql.create_engine(parsed, connect_args={"timeout": BUSY}, **options)
    sql.event.listen(engine, "connect", _set_up_sqlite)
    if create:  # whoever only reads leaves another program's database as it is
        sql.event.listen(engine, "connect", _use_wal)
    sql.event.listen(engine, "begin", _begin_sqlite)
    if not memory:
        _engines.add(engine)
    return engine


def _shown(url: sql.URL) -> str:
    """A URL without what it keeps secret."""
    secret = [key for key in url.query if "password" in key]
    return url.difference_update_query(secret).render_as_string(hide_password=True)


def _leave_connections_to_the_parent() -> None:
    for engine in list(_engines):
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_connections_to_the_parent)


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _use_wal(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL").fetchall()


def _begin_sqlite(connection: sql.Connection) -> None:
    writes = connection.get_execution_options().get("tether_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
