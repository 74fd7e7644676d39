"""The store: every action, loss, round and alarm, durable once the call that wrote it returns.

One transaction per call, one writer at a time: SQLite by its own lock, PostgreSQL by an advisory
lock. So numbers are assigned without gaps, and what a reader has seen up to a number never changes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray
from sqlalchemy import exc, pool

from tether._core import records
from tether._core.types import Floats, Integers
from tether.control.calibration import Calibration
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


IDS_PER_QUERY = 500
"""How many ids go into one query at most."""
MAX_BLOB_BYTES = 2**26
"""How many bytes of a column of scores go into one database row at most."""


def now() -> str:
    """The present time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_settings(connection: sql.Connection) -> dict[str, Any]:
    """What the run was created with, and how its contexts and actions are stored."""
    rows = connection.execute(sql.select(schema.settings.c.name, schema.settings.c.value))
    return {name: json.loads(value) for name, value in rows if name != "version"}


def write_settings(connection: sql.Connection, settings: dict[str, Any]) -> None:
    """Add entries to the stored settings."""
    rows = [
        {"name": name, "value": json.dumps(records.encode(value))}
        for name, value in settings.items()
    ]
    connection.execute(schema.settings.insert(), rows)


def read_all(connection: sql.Connection, table: sql.Table) -> list[dict[str, Any]]:
    """A small table in the order of its key; empty if an older store does not have it."""
    if not sql.inspect(connection).has_table(table.name):
        return []
    query = sql.select(table).order_by(*table.primary_key)
    return [dict(row) for row in connection.execute(query).mappings()]


def last_number(connection: sql.Connection, column: sql.Column[Any]) -> int:
    """The largest number assigned so far; 0 before the first."""
    return int(connection.scalar(sql.select(sql.func.max(column))) or 0)


def find_known(
    connection: sql.Connection, column: sql.Column[Any], numbers: Integers | Sequence[int]
) -> list[int]:
    """The given numbers that a column contains."""
    known: list[int] = []
    for start in range(0, len(numbers), IDS_PER_QUERY):
        batch = [int(number) for number in numbers[start : start + IDS_PER_QUERY]]
        known += connection.scalars(sql.select(column).where(column.in_(batch)))
    return known


def read_column(connection: sql.Connection, number: int, name: str, start: int = 0) -> Floats:
    """A round's column of scores from row `start` on, as one flat array."""
    table = schema.columns
    query = (
        sql.select(table.c["values"])
        .where(table.c.round == number, table.c.name == name, table.c.start >= start)
        .order_by(table.c.start)
    )
    content = b"".join(bytes(blob) for blob in connection.scalars(query))
    return np.frombuffer(content, dtype="<f8").astype(np.float64, copy=False)


def write_column(
    connection: sql.Connection, number: int, name: str, start: int, values: NDArray[Any]
) -> None:
    """Append to a round's column of scores, in pieces that a database can hold."""
    array = np.ascontiguousarray(values, dtype="<f8")
    step = max(1, MAX_BLOB_BYTES * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), step):
        piece = array[first : first + step]
        connection.execute(
            schema.columns.insert().values(
                round=number,
                name=name,
                start=start + first,
                count=len(piece),
                values=piece.tobytes(),
            )
        )


def calibration_to_json(calibration: Calibration | None) -> str | None:
    """A calibration as JSON, diagnostics included."""
    return None if calibration is None else json.dumps(records.encode(calibration.to_dict()))


def calibration_from_json(text: str | None) -> Calibration | None:
    """The inverse of `calibration_to_json`."""
    return None if text is None else Calibration.from_dict(json.loads(text))


def find_alarm(connection: sql.Connection) -> int | None:
    """The number of the alarm that stands; None if there is none."""
    table = schema.alarms
    query = sql.select(sql.func.min(table.c.number)).where(table.c.cleared.is_(None))
    number = connection.scalar(query)
    return None if number is None else int(number)


def write_alarm(connection: sql.Connection, round_number: int, monitor: str, message: str) -> None:
    """Raise an alarm: from now on the safe policy serves."""
    table = schema.alarms
    row = {
        "number": 1 + last_number(connection, table.c.number),
        "round": round_number,
        "monitor": monitor,
        "message": message,
        "raised": now(),
    }
    connection.execute(table.insert().values(**row))


def write_alarm_cleared(connection: sql.Connection, reason: str) -> None:
    """Clear every alarm that stands; the monitors restart after the present rows."""
    table = schema.alarms
    connection.execute(
        table.update()
        .where(table.c.cleared.is_(None))
        .values(
            cleared=now(),
            reason=reason,
            last_action=last_number(connection, schema.actions.c.id),
            last_observation=last_number(connection, schema.observations.c.number),
        )
    )


def monitored_after(connection: sql.Connection) -> tuple[int, int]:
    """The last action and the last observation before the monitors' most recent restart."""
    table = schema.alarms
    query = sql.select(sql.func.max(table.c.last_action), sql.func.max(table.c.last_observation))
    action, observation = connection.execute(query).one()
    return int(action or 0), int(observation or 0)
