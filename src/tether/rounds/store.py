"""The store: every action, loss, round and alarm, durable once the call that wrote it returns.

One transaction a call, one writer at a time: SQLite by its own lock, PostgreSQL by an advisory one.
So numbers are given out without gaps, and what a reader has seen up to a number stays as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray
from sqlalchemy import exc, pool

from tether import _record
from tether._check import Floats
from tether.rounds import schema
from tether.rounds.errors import StoreError

BUSY = 60
"""Seconds to wait for another writer."""
LOCK = 0x7E74E4
"""The number of the advisory lock in PostgreSQL."""
FEW = 500
"""How many numbers go into one query at most."""


class Store:
    """A database behind a URL, such as "sqlite:///run.db" or "postgresql+psycopg://host/name".

    A path alone means SQLite. With `create=False` a store that is not there is an error.
    """

    def __init__(self, url: str | Path, *, create: bool = True) -> None:
        self._engine = _engine(url, create)
        self.name = self._engine.url.render_as_string(hide_password=True)
        with self._told("open"), self.writing() as connection:
            version = schema.find_version(connection)
            if version is None and not create:
                raise StoreError(f"{self.name} holds no run of tether")
            schema.prepare(connection, version)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """One transaction that no other writer is beside: all of it is kept, or nothing."""
        with self._told("write"), self._engine.connect() as connection:
            connection = connection.execution_options(tether_writes=True)
            with connection.begin():
                if connection.dialect.name == "postgresql":
                    connection.execute(sql.select(sql.func.pg_advisory_xact_lock(LOCK)))
                yield connection

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """One moment of the store, whatever is written meanwhile."""
        with self._told("read"), self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """The database's complaint in one sentence, rather than its driver's."""
        try:
            yield
        except exc.IntegrityError:
            raise
        except exc.SQLAlchemyError as error:
            cause = " ".join(str(getattr(error, "orig", None) or error).split())
            raise StoreError(
                f"could not {what} {self.name}: {cause}. Nothing of it was kept; the same call may "
                f"be made again when the store is back"
            ) from error


def read_terms(connection: sql.Connection) -> dict[str, Any]:
    """What the run was made with."""
    rows = connection.execute(sql.select(schema.terms.c.name, schema.terms.c.value))
    return {name: _record.decode(json.loads(value)) for name, value in rows if name != "version"}


def write_terms(connection: sql.Connection, terms: dict[str, Any]) -> None:
    """Add to what the run was made with."""
    rows = [
        {"name": name, "value": json.dumps(_record.encode(value))} for name, value in terms.items()
    ]
    connection.execute(schema.terms.insert(), rows)


def read_all(connection: sql.Connection, table: sql.Table) -> list[dict[str, Any]]:
    """A small table, in the order of its key."""
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


def read_column(connection: sql.Connection, number: int, name: str) -> Floats:
    """A column of scores as it was written, its parts put together: flat."""
    table = schema.columns
    query = (
        sql.select(table.c["values"])
        .where(table.c.round == number, table.c.name == name)
        .order_by(table.c.start)
    )
    parts = b"".join(bytes(part) for part in connection.scalars(query))
    return np.frombuffer(parts, dtype="<f8").astype(np.float64, copy=False)


def write_column(
    connection: sql.Connection, number: int, name: str, start: int, values: NDArray[Any]
) -> None:
    """One more part of a column of scores."""
    connection.execute(
        schema.columns.insert().values(
            round=number,
            name=name,
            start=start,
            count=len(values),
            values=np.ascontiguousarray(values, dtype="<f8").tobytes(),
        )
    )


def _engine(url: str | Path, create: bool) -> sql.Engine:
    text = str(url)
    if "://" not in text:
        text = f"sqlite:///{text}"
    try:
        parsed = sql.make_url(text)
    except exc.ArgumentError as error:
        raise ValueError(f"store must be a database URL or a path, got {url!r}") from error
    if parsed.get_backend_name() == "postgresql":
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        return sql.create_engine(parsed, pool_pre_ping=True)
    if parsed.get_backend_name() != "sqlite":
        raise ValueError(f"store must be SQLite or PostgreSQL, got {parsed.drivername!r}")
    memory = parsed.database in (None, "", ":memory:")
    if not memory and not create and not Path(str(parsed.database)).is_file():
        raise StoreError(f"there is no store {parsed.database}")
    options: dict[str, Any] = {"poolclass": pool.StaticPool} if memory else {}
    engine = sql.create_engine(parsed, connect_args={"timeout": BUSY}, **options)
    sql.event.listen(engine, "connect", _set_up_sqlite)
    sql.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _begin_sqlite(connection: sql.Connection) -> None:
    writes = connection.get_execution_options().get("tether_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
