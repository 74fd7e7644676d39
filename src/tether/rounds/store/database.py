"""The store: every action, loss, round and alarm, durable once the call that wrote it returns.

One transaction per call. In SQLite there is one writer at a time. In PostgreSQL several may act and
observe at once, each in a lane of its own; what changes who serves (a round, an alarm) is written
while nobody else writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from threading import RLock
from typing import Any

import sqlalchemy as sql
from sqlalchemy import exc

from tether._core import validate
from tether._core.files import redact_message, redact_url
from tether.rounds.errors import ClosedError, NoStoreError, StoreError
from tether.rounds.store import postgres_locks, schema
from tether.rounds.store.deadline import DEADLINE_SECONDS, remaining, within
from tether.rounds.store.engine import is_in_memory, make_engine
from tether.rounds.store.lanes import lane_from_row
from tether.rounds.store.serving import SERVING_COLUMNS, serving_from_row
from tether.rounds.store.sqlite_deadline import WRITES_OPTION
from tether.rounds.store.verify_run import check_opened
from tether.rounds.store.writer import Writer
from tether.rounds.store.writer_queue import WriterQueue

logger = logging.getLogger("tether.rounds")

PATIENCE_FOR_ROWS = 60
"""How many deadlines a call may take that reads every row, such as one that begins a round."""
PATIENCE_FOR_COPIES = 10_000
"""How many deadlines a call may take that copies a whole run."""
PATIENCE_WHILE_LOCKED = 12
"""How many deadlines a call may compute between two statements while others wait for its locks."""
NO_SCHEMA = "no schema has been selected to create in"
"""What PostgreSQL says where no schema of the search path exists."""
READ_ONLY = "attempt to write a readonly database"
"""What SQLite says where the file or its folder may not be written."""
MIN_DEADLINE, MAX_DEADLINE = 1e-3, 86_400.0
"""A deadline has at least one millisecond, the unit of the databases, and less than one day."""
_STATE = (
    sql.select(schema.settings.c.value, *SERVING_COLUMNS, *schema.lanes.c)
    .select_from(schema.settings)
    .outerjoin(schema.lanes, sql.true())
    .where(schema.settings.c.name == "version")
    .order_by(schema.lanes.c.lane)
)
"""Everything that a writer needs to know: the version, who serves, and all lanes."""
_LANES_FROM = 1 + len(SERVING_COLUMNS)


class Store:
    """A database given by a URL, such as "sqlite:///run.db" or "postgresql://host/name".

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
        logger.debug("closed %s", self.name)

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
        locks = postgres_locks.WRITING_ALONE if exclusive else postgres_locks.WRITING
        with (
            self._store_errors("write"),
            self._transaction(locks, patience=patience) as (connection, number),
        ):
            yield self._writer(connection, number, exclusive=exclusive or self.single_writer)

    @contextmanager
    def updating_monitors(self) -> Iterator[sql.Connection | None]:
        """A transaction that updates the state of the monitors, which follows from the rows.

        None if somebody else is about to, and will see everything that is stored by now.
        """
        locks = postgres_locks.UPDATING_MONITORS
        with self._store_errors("write"), self._transaction(locks) as (connection, has_turn):
            yield connection if has_turn else None

    @contextmanager
    def reading(self, *, patience: float = 1) -> Iterator[sql.Connection]:
        """A consistent snapshot of the store, whatever is written meanwhile."""
        with self._store_errors("read"), self._transaction(patience=patience) as (connection, _):
            yield connection

    def _open(self, create: bool, check: bool) -> None:
        with (
            self._store_errors("open"),
            self._transaction(patience=PATIENCE_FOR_ROWS) as (connection, _),
        ):
            version = find_version(connection)
            if version == schema.VERSION and check:
                check_opened(connection)
        if version is None:
            if not create:
                raise NoStoreError(f"{self.name} holds no run of tether")
            locks = postgres_locks.WRITING_ALONE
            with self._store_errors("open"), self._transaction(locks) as (connection, _):
                schema.prepare(connection, find_version(connection))
        else:
            schema.check_version(version)
        logger.debug("%s %s", "created" if version is None else "opened", self.name)

    @contextmanager
    def _transaction(
        self, locks: sql.Select[Any] | None = None, *, patience: float = 1
    ) -> Iterator[tuple[sql.Connection, Any]]:
        """A transaction; it writes if there are locks to take, which only PostgreSQL needs.

        Also what the last of the locks says.
        """
        self.check_open()
        writes, seconds = locks is not None, self.deadline * patience
        body_done = False
        with within(seconds), ExitStack() as stack:
            try:
                with within(self.deadline):  # nobody waits for others any longer
                    begun = self._begin(stack, locks, patience)
                yield begun
                body_done = True
                stack.close()  # commits
            except exc.DBAPIError as error:
                if body_done and writes and error.connection_invalidated:
                    raise StoreError(
                        f"the connection to {self.name} was lost during the commit: the last call "
                        f"may or may not have been stored; check `run.round` and `run.pending()`"
                    ) from error
                raise

    def _begin(
        self, stack: ExitStack, locks: sql.Select[Any] | None, patience: float
    ) -> tuple[sql.Connection, Any]:
        """Wait for one's turn, and begin; everything ends with the stack."""
        writes = locks is not None
        stack.enter_context(self._one_at_a_time)
        if writes and self._queue is not None:
            stack.enter_context(self._queue.turn())
        connection = stack.enter_context(self._engine.connect())
        options: dict[str, Any] = {WRITES_OPTION: writes}
        if not self.single_writer:  # a writer must see what was committed while it waited
            options["isolation_level"] = "READ COMMITTED" if writes else "REPEATABLE READ"
        connection = connection.execution_options(**options)
        stack.enter_context(connection.begin())
        if locks is None or self.single_writer:
            return connection, None
        idle = self.deadline * min(patience, PATIENCE_WHILE_LOCKED)
        limits = {"limit": _milliseconds(remaining()), "idle": _milliseconds(idle)}
        try:
            return connection, connection.execute(locks, limits).one()[-1]
        except BaseException:
            connection.invalidate()  # the server releases what was taken for the whole session
            raise

    def _writer(self, connection: sql.Connection, number: int | None, *, exclusive: bool) -> Writer:
        """Read what a writer needs, and check that the version is still the same."""
        if number is None and not self.single_writer:  # more writers than lanes: wait for the first
            connection.execute(postgres_locks.FIRST_LANE)
        rows = connection.execute(_STATE).all()
        found = rows[0][0] if rows else None
        if found != str(schema.VERSION):
            raise StoreError(
                f"{self.name} has version {found} now, and had {schema.VERSION} when this process "
                f"opened it: restart the process with the tether of that version"
            )
        lanes = [row[_LANES_FROM:] for row in rows if row[_LANES_FROM] is not None]
        return Writer(
            connection,
            serving=serving_from_row(rows[0][1:_LANES_FROM]),
            lanes={row[0]: lane_from_row(row) for row in lanes},
            own_lane=number or 0,
            exclusive=exclusive,
            sign=self.sign,
        )

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
            if NO_SCHEMA in cause:
                message += " (the schema in the search_path of the URL must exist: CREATE SCHEMA)"
            if READ_ONLY in cause:
                message += (
                    " (this process may not write to the file or its folder, which SQLite needs to "
                    "read a store too: run as its owner, or read a copy made with tether backup)"
                )
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


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(1000 * seconds))}ms"
