"""Writes of several threads in one transaction: one leads, and commits for all that wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, TypeVar
from weakref import WeakSet

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from tether.rounds.errors import StoreError
from tether.rounds.store.database import Store
from tether.rounds.store.deadline import remaining
from tether.rounds.store.writer import Writer

MAX_JOBS_PER_COMMIT = 64
"""How many threads' writes share a transaction at most."""
WAIT_FACTOR = 4
"""How many deadlines a thread waits for the thread that commits for it."""
LOST_RACES = ("40001", "40P01")
"""What PostgreSQL says to the transaction that it ends where two wait for each other."""

Result = TypeVar("Result")


@dataclass
class _Job:
    """What one thread writes, and what came of it."""

    write: Callable[[Writer], Any]
    result: Any = None
    error: BaseException | None = None
    leads: bool = False
    done: Event = field(default_factory=Event)


_commits: WeakSet[GroupCommit] = WeakSet()
"""In a child process the threads that its parent waited for do not exist."""


class GroupCommit:
    """Commits what threads write, together where they write at the same time.

    `finish` is called once at the end of each transaction. A job that fails is rolled back alone.
    A transaction that the database ends in favour of another begins anew, within the deadline.
    """

    def __init__(self, store: Store, finish: Callable[[Writer], None]) -> None:
        self._store, self._finish = store, finish
        self.begin_anew()
        _commits.add(self)

    def begin_anew(self) -> None:
        """Forget the threads of a parent process."""
        self._lock = Lock()
        self._waiting: list[_Job] = []
        self._is_led = False

    def submit(self, write: Callable[[Writer], Result]) -> Result:
        """Call `write` in a transaction, and return what it returned once that is committed."""
        job = _Job(write)
        with self._lock:
            self._waiting.append(job)
            job.leads, self._is_led = not self._is_led, True
        if not job.leads:
            try:
                self._wait(job)
            except BaseException:  # interrupted
                self._abandon(job)
                raise
        if job.leads:
            self._lead()
        if job.error is not None:
            raise job.error
        result: Result = job.result
        return result

    def _wait(self, job: _Job) -> None:
        seconds = min(WAIT_FACTOR * self._store.deadline, remaining())
        if job.done.wait(seconds):
            return
        with self._lock:
            if job.leads:
                return
            if job in self._waiting:
                self._waiting.remove(job)
                raise StoreError(
                    f"could not write {self._store.name}: other threads were writing for "
                    f"{seconds:.3g} s. Nothing was stored"
                )
        job.done.wait()  # it is being written, by a thread that has a deadline of its own

    def _abandon(self, job: _Job) -> None:
        """Let others go on without this thread."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
            if job.leads:
                self._pass_on()

    def _pass_on(self) -> None:
        """Let the next one in line lead, if anybody waits."""
        following = self._waiting[0] if self._waiting else None
        self._is_led = following is not None
        if following is not None:
            following.leads = True
            following.done.set()

    def _lead(self) -> None:
        """Write for everyone who waits, then let the next one in line lead."""
        with self._lock:
            batch = self._waiting[:MAX_JOBS_PER_COMMIT]
            del self._waiting[:MAX_JOBS_PER_COMMIT]
        try:
            self._write(batch)
        finally:
            with self._lock:
                self._pass_on()
            for job in batch:
                job.done.set()

    def _write(self, batch: list[_Job]) -> None:
        last_try = time.monotonic() + min(self._store.deadline, remaining())
        while self._is_race_lost(batch) and time.monotonic() < last_try:
            for job in batch:
                job.result = job.error = None

    def _is_race_lost(self, batch: list[_Job]) -> bool:
        """Write for a batch; True if the database ended it in favour of another transaction."""
        try:
            with self._store.writing() as writer:
                for job in batch:
                    self._run(job, writer, alone=len(batch) == 1)
                self._finish(writer)
            return False
        except BaseException as error:
            for job in batch:
                if job.error is None:
                    job.error = error if job is batch[0] else _same_for_another(error)
            if not isinstance(error, Exception):
                raise
            cause = error.__cause__
            state = getattr(cause.orig, "sqlstate", None) if isinstance(cause, DBAPIError) else None
            return state in LOST_RACES

    def _run(self, job: _Job, writer: Writer, *, alone: bool) -> None:
        if alone:
            job.result = job.write(writer)
            return
        try:
            with writer.savepoint():
                job.result = job.write(writer)
        except Exception as error:
            if isinstance(error, SQLAlchemyError) and not isinstance(error, IntegrityError):
                raise  # the store failed, and not this job alone
            job.error = error


def _forget_threads_of_the_parent() -> None:
    for commit in list(_commits):
        commit.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads_of_the_parent)


def _same_for_another(error: BaseException) -> BaseException:
    """An error for another thread, which must not share the traceback."""
    if isinstance(error, StoreError):
        return type(error)(str(error))
    return StoreError(f"a write that was committed together with this one failed: {error!r}")
