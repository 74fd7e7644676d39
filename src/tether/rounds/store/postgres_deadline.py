"""PostgreSQL connections that keep the deadline, also when the server is frozen.

A frozen backend still has its packets acknowledged by the kernel, so no timeout of the server or of
TCP ends the wait. Here the wait itself ends: psycopg's connections wait in one method, `wait`, and
a deadline that passes there closes the socket. Nothing is asked of the server for that.

New connections are made in a thread beside the caller's, since libpq looks up host names without
any timeout and counts its own in whole seconds, for each address anew.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from threading import TIMEOUT_MAX, Lock, Thread
from typing import Any
from weakref import WeakSet

import psycopg
import sqlalchemy as sql
from psycopg.rows import TupleRow
from sqlalchemy import exc

from tether.rounds.store import deadline

PING_SHARE = 0.5
"""The share of the remaining time in which a pooled connection has to answer; the rest is for a new
connection."""
CLIENT_CHECK_SECONDS = 1
"""How often the server looks whether the client of a running statement is still there."""


def install(engine: sql.Engine, seconds: float = deadline.DEADLINE_SECONDS) -> None:
    """Make every connection of an engine keep the deadline in force, or `seconds` if there is none.

    Connections from the pool are checked before they are used, so `pool_pre_ping` is not needed.
    """
    connector = Connector(seconds)

    def connect(_: Any, __: Any, arguments: Any, options: dict[str, Any]) -> DeadlineConnection:
        options.setdefault("connect_timeout", math.ceil(seconds) + 1)
        return connector.connect(*arguments, **options)

    def prepare(connection: DeadlineConnection, _: Any) -> None:
        """Let the server end what a client that is gone has left behind (PostgreSQL 14 on)."""
        connection.autocommit = True
        with suppress(psycopg.ProgrammingError, psycopg.DataError):
            connection.execute(f"SET client_connection_check_interval = '{CLIENT_CHECK_SECONDS}s'")
        connection.autocommit = False

    def check(connection: DeadlineConnection, record: Any, _: Any) -> None:
        if record.info.setdefault("tether_new", True):
            record.info["tether_new"] = False
            return
        left = min(seconds, deadline.remaining())
        try:
            with deadline.within(max(PING_SHARE * left, 1e-9)):
                engine.dialect.do_ping(connection)  # type: ignore[arg-type]
        except psycopg.Error as error:
            raise exc.InvalidatePoolError() from error

    sql.event.listen(engine, "do_connect", connect)
    sql.event.listen(engine, "connect", prepare)
    sql.event.listen(engine, "checkout", check)


class DeadlineConnection(psycopg.Connection[TupleRow]):
    """A connection that is closed when the deadline passes during a wait for the server."""

    default_seconds = deadline.DEADLINE_SECONDS
    """The deadline of each operation where none is set."""

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Run one operation to its end or to the deadline."""
        with deadline.by_default(self.default_seconds):
            return super().wait(self._until_deadline(gen), *args, **kwargs)

    def _until_deadline(self, operation: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same operation; psycopg resumes it several times per second, ready or not."""
        ready = None
        while ready or not deadline.passed():
            try:
                state = operation.send(ready)
            except StopIteration as end:
                return end.value
            if ready and deadline.passed():  # what had arrived was not all of the answer
                break
            ready = yield state
        self.pgconn.finish()
        raise psycopg.OperationalError(deadline.message())


class Connector:
    """Opens connections within the deadline.

    An attempt that its caller gave up is left to the next caller, so that there are never more
    attempts at a time than callers.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.forget()
        _connectors.add(self)

    def forget(self) -> None:
        """Start anew: a child process has none of its parent's threads."""
        self._guard = Lock()
        self._given_up: list[Future[DeadlineConnection]] = []

    def connect(self, *arguments: Any, **options: Any) -> DeadlineConnection:
        """A new connection, or an error when the deadline passes."""
        with deadline.by_default(self._seconds):
            if deadline.passed():
                raise psycopg.OperationalError(deadline.message())
            with self._guard:
                attempt = self._given_up.pop() if self._given_up else None
            if attempt is None:
                attempt = Future()
                job = (attempt, arguments, options)
                Thread(target=self._try, args=job, daemon=True, name="tether-connect").start()
            with suppress(TimeoutError):
                return attempt.result(min(deadline.remaining(), TIMEOUT_MAX))
            with self._guard:
                if not attempt.done():
                    self._given_up.append(attempt)
                    raise psycopg.OperationalError(deadline.message())
            return attempt.result()

    def _try(
        self, attempt: Future[DeadlineConnection], arguments: Any, options: dict[str, Any]
    ) -> None:
        connection, error = None, None
        try:
            connection = DeadlineConnection.connect(*arguments, **options)
            connection.default_seconds = self._seconds
        except BaseException as raised:
            error = raised
        with self._guard:
            if attempt in self._given_up:
                self._given_up.remove(attempt)
                if connection is not None:
                    connection.close()
            elif connection is not None:
                attempt.set_result(connection)
            else:
                attempt.set_exception(error)


_connectors: WeakSet[Connector] = WeakSet()


def _forget_attempts_of_the_parent() -> None:
    for connector in list(_connectors):
        connector.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_attempts_of_the_parent)
