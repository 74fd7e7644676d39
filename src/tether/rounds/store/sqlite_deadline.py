"""SQLite connections that keep the deadline.

A statement that runs too long is interrupted, and a lock that another process holds is waited for
until the deadline. What cannot be interrupted is one call of the operating system, such as a write
to a disk that hangs.
"""

from __future__ import annotations

import random
import sqlite3
import time
from typing import Any

import sqlalchemy as sql
from sqlalchemy import exc
from sqlalchemy.engine import ExceptionContext

from tether.rounds.store import deadline

WRITES_OPTION = "tether_writes"
"""The execution option of a connection whose transaction will write."""
INSTRUCTIONS_PER_CHECK = 20_000
"""How many instructions of its virtual machine SQLite runs between two looks at the clock."""
LOCK_POLL_SECONDS = (0.0005, 0.0015)
"""How long a writer sleeps before it tries the lock again. SQLite's own sleep grows up to 0.1 s,
so that whoever has waited longest tries least often."""
MAX_BUSY_SECONDS = 60.0
"""How long a statement waits for a lock where there is no deadline."""


def install(engine: sql.Engine) -> None:
    """Make every statement and transaction of an engine keep the deadline in force."""
    sql.event.listen(engine, "connect", _watch)
    sql.event.listen(engine, "handle_error", _say_that_the_deadline_passed, retval=True)
    sql.event.listen(engine, "begin", _begin)


def _begin(connection: sql.Connection) -> None:
    """Begin a transaction; one that writes waits for the other writers until the deadline."""
    writes = connection.get_execution_options().get(WRITES_OPTION, False)
    driver: Any = connection.connection.driver_connection
    end = _end_of_waiting()
    if writes:
        _run_when_free(driver, "BEGIN IMMEDIATE", end)
    limit = max(0.0, end - time.monotonic())
    driver.execute(f"PRAGMA busy_timeout={int(1000 * limit)}").close()
    if not driver.in_transaction:  # or to have the error that was met
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def use_wal(driver: Any, _: Any) -> None:
    """Let readers go on while another process writes; wait for the others until the deadline.

    SQLite itself does not wait here: of several processes that change the mode of a new file at
    once, all but one are told that it is locked.
    """
    if not _run_when_free(driver, "PRAGMA journal_mode=WAL", _end_of_waiting()):
        driver.execute("PRAGMA journal_mode=WAL").fetchall()


def _end_of_waiting() -> float:
    return time.monotonic() + min(deadline.remaining(), MAX_BUSY_SECONDS)


def _run_when_free(driver: sqlite3.Connection, statement: str, end: float) -> bool:
    """Try a statement until no other process holds its lock; whether it ran in time."""
    driver.execute("PRAGMA busy_timeout=0").close()
    while time.monotonic() < end:
        try:
            driver.execute(statement).fetchall()
        except sqlite3.Error as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                return False
        else:
            return True
        time.sleep(random.uniform(*LOCK_POLL_SECONDS))
    return False


def _watch(driver: Any, _: Any) -> None:
    driver.set_progress_handler(deadline.passed, INSTRUCTIONS_PER_CHECK)


def _say_that_the_deadline_passed(context: ExceptionContext) -> exc.OperationalError | None:
    error = context.original_exception
    if not isinstance(error, sqlite3.OperationalError) or not deadline.passed():
        return None
    reason = sqlite3.OperationalError(f"{deadline.message()} ({error})")
    return exc.OperationalError(context.statement, None, reason)
