"""The store: every action, loss, round and alarm, durable once the call that wrote it returns.

One transaction per call. In SQLite there is one writer at a time. In PostgreSQL several may act and
observe at once, each in a lane of its own; what changes who serves (a round, an alarm) is written
while nobody else writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from threading import RLock
from typing import Any

import sqlalchemy as sql
from sqlalchemy import exc

from tether._core import validate
from tether._core.redact import redact_message, redact_url
from tether.rounds.errors import ClosedError, StoreError
from tether.rounds.store import schema
from tether.rounds.store.deadline import DEADLINE_SECONDS, remaining, within
from tether.rounds.store.engine import is_in_memory, make_engine
from tether.rounds.store.lanes import MAX_LANES
from tether.rounds.store.sqlite_deadline import WRITES_OPTION
from tether.rounds.store.verify_run import check_opened
from tether.rounds.store.writer import Writer
from tether.rounds.store.writer_queue import WriterQueue

PATIENCE_FOR_ROWS = 60
"""How many deadlines a call may take that reads every row, such as one that begins a round."""
PATIENCE_FOR_COPIES = 10_000
"""How many deadlines a call may take that copies a whole run."""
MIN_DEADLINE, MAX_DEADLINE = 1e-3, 86_400.0
"""A deadline has at least one millisecond, the unit of the databases, and less than one day."""
ROUND_LOCK, MONITOR_LOCK, LANE_LOCK = 0x7E74E4, 0x7E74E5, 0x7E74E6
"""Advisory locks in PostgreSQL: who serves, the state of the monitors, and one for each lane."""


class Store:
    """A database given by a URL, such as "sqlite:///run.db" or "postgresql+psycopg://host/name".

    A path alone means SQLite. With `create=False` a missing store is an error. With `check` the
    end of its hash chain is checked. `sign` signs every record that is written. It may be used from
    several threads.
    """

    def __init__(
        self,
        url: str | Path,
        *,
        create: bool = True,
        check: bool = True,
        deadline: float = DEADLINE_SECONDS,
        sign: Callable[[bytes], str] | None = None,
    ) -> None:
        self.deadline = validate.number(
            "deadline", deadline, above=MIN_DEADLINE, below=MAX_DEADLINE, including=(MIN_DEADLINE,)
        )
        self._engine = make_engine(url, create=create, deadline=self.deadline)
        self._url = self._engine.url.render_as_string(hide_password=False)
        self.name = redact_url(self._url)
        self.sign = sign
        self.single_writer = self._engine.dialect.name == "sqlite"
        in_memory = is_in_memory(self._engine)
        self.file = str(self._engine.url.database) if self.single_writer and not in_memory else None
        self._closed = False
        self._one_at_a_time = RLock() if in_memory else nullcontext()
        self._queue = None if self.file is None else WriterQueue(self.file)
        try:
            self._open(create, check)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every connection to the database; later calls are refused."""
        self._closed = True
        self._engine.dispose()

    def check_open(self) -> None:
        """Refuse what is asked of a store after it was closed."""
        if self._closed:
            raise ClosedError(f"the run is closed: `close` was called, and {self.name} is not open")

    @contextmanager
    def writing(self, *, exclusive: bool = False, patience: float = 1) -> Iterator[Writer]:
        """A transaction that adds actions or observations: all of it is kept, or nothing.

        With `exclusive` there is no other writer, and it may add records too. With `patience` it
        may take so many deadlines, but it waits for other writers no longer than one.
        """
        locks = (_round_lock(exclusive=exclusive),)
        with self._store_errors("write"), self._transaction(locks, patience=patience) as connection:
            lane = self._take_lane(connection)
            sole = exclusive or self.single_writer
            yield Writer(connection, lane, exclusive=sole, sign=self.sign)

    @contextmanager
    def updating_monitors(self) -> Iterator[sql.Connection]:
        """A transaction that updates the state of the monitors, which follows from the rows."""
        monitor = sql.func.pg_advisory_xact_lock(MONITOR_LOCK)
        # what is lost in a crash is computed again
        at_once = sql.func.set_config("synchronous_commit", "off", True)
        locks = (_round_lock(exclusive=False), monitor, at_once)
        with self._store_errors("write"), self._transaction(locks) as connection:
            yield connection

    @contextmanager
    def reading(self, *, patience: float = 1) -> Iterator[sql.Connection]:
        """A consistent snapshot of the store, whatever is written meanwhile."""
        with self._store_errors("read"), self._transaction(patience=patience) as connection:
            yield connection

    def _open(self, create: bool, check: bool) -> None:
        with (
            self._store_errors("open"),
            self._transaction(patience=PATIENCE_FOR_ROWS) as connection,
        ):
            version = find_version(connection)
            if version == schema.VERSION and check:
                check_opened(connection)
        if version is None:
            if not create:
                raise StoreError(f"{self.name} holds no run of tether")
            locks = (_round_lock(exclusive=True),)
            with self._store_errors("open"), self._transaction(locks) as connection:
                schema.prepare(connection, find_version(connection))
        else:
            schema.check_version(version)

    @contextmanager
    def _transaction(
        self, locks: Sequence[sql.ColumnElement[Any]] = (), *, patience: float = 1
    ) -> Iterator[sql.Connection]:
        """A transaction; it writes if there are locks to take, which only PostgreSQL needs."""
        self.check_open()
        writes, seconds = bool(locks), self.deadline * patience
        body_done = False
        with within(seconds), ExitStack() as stack:
            try:
                with within(self.deadline):  # nobody waits for others any longer
                    connection = self._begin(stack, locks)
                yield connection
                body_done = True
                stack.close()  # commits
            except exc.DBAPIError as error:
                if body_done and writes and error.connection_invalidated:
                    raise StoreError(
                        f"the connection to {self.name} was lost during the commit: the last call "
                        f"may or may not have been stored; check `run.round` and `run.pending()`"
                    ) from error
                raise

    def _begin(self, stack: ExitStack, locks: Sequence[sql.ColumnElement[Any]]) -> sql.Connection:
        """Wait for one's turn, and begin; everything ends with the stack."""
        writes = bool(locks)
        stack.enter_context(self._one_at_a_time)
        if writes and self._queue is not None:
            stack.enter_context(self._queue.turn())
        connection = stack.enter_context(self._engine.connect())
        options: dict[str, Any] = {WRITES_OPTION: writes}
        if not self.single_writer:  # a writer must see what was committed while it waited
            options["isolation_level"] = "READ COMMITTED" if writes else "REPEATABLE READ"
        connection = connection.execution_options(**options)
        stack.enter_context(connection.begin())
        if writes and not self.single_writer:
            limit = f"{max(1, round(1000 * remaining()))}ms"
            timeout = sql.func.set_config("lock_timeout", limit, True)
            connection.execute(sql.select(timeout, *locks))
        return connection

    def _take_lane(self, connection: sql.Connection) -> int:
        """Take a lane that nobody else has, and check that the version is still the same."""
        name = schema.settings.c.name
        version = sql.select(schema.settings.c.value).where(name == "version").scalar_subquery()
        lane = sql.literal(0) if self.single_writer else _free_lane()
        found, number = connection.execute(sql.select(version, lane)).one()
        if found != str(schema.VERSION):
            raise StoreError(
                f"{self.name} has version {found} now, and had {schema.VERSION} when this process "
                f"opened it: restart the process with the tether of that version"
            )
        if number is None:  # more writers than lanes: wait for the first
            connection.execute(sql.select(sql.func.pg_advisory_xact_lock(LANE_LOCK, 0)))
        return int(number or 0)

    @contextmanager
    def _store_errors(self, operation: str) -> Iterator[None]:
        """Turn the driver's exceptions into one readable `StoreError`."""
        try:
            yield
        except exc.IntegrityError:
            raise
        except exc.SQLAlchemyError as error:
            cause = " ".join(str(getattr(error, "orig", None) or error).split())
            message = f"could not {operation} {self.name}: {redact_message(cause, self._url)}"
            if operation == "write":
                message += ". Nothing was stored; repeat the call when the store is available again"
            raise StoreError(message) from error


def find_version(connection: sql.Connection) -> int | None:
    """The version of a store; None where there is none yet."""
    if not sql.inspect(connection).has_table(schema.settings.name):
        return None
    return read_version(connection)


def read_version(connection: sql.Connection) -> int:
    """The version of an existing store."""
    table = schema.settings
    version = connection.scalar(sql.select(table.c.value).where(table.c.name == "version"))
    if not isinstance(version, str) or not version.isdecimal():
        raise StoreError(
            f"the database has a table {table.name} that was not created by tether: choose another "
            f"database"
        )
    return int(version)


def _round_lock(*, exclusive: bool) -> sql.ColumnElement[Any]:
    if exclusive:
        return sql.func.pg_advisory_xact_lock(ROUND_LOCK)
    return sql.func.pg_advisory_xact_lock_shared(ROUND_LOCK)


def _free_lane() -> sql.ColumnElement[Any]:
    """The first lane that nobody else has taken, taken; NULL if there is none."""
    number = sql.func.generate_series(0, MAX_LANES - 1).column_valued("number")
    free = sql.func.pg_try_advisory_xact_lock(LANE_LOCK, number)
    return sql.select(number).where(free).limit(1).scalar_subquery()
