"""The truth of a run: an append-only log of events with a hash chain, written by one thread.

Every call hands a job to the writer thread of its process. The thread takes what waits, begins one
transaction without any other writer, folds what other processes have appended, runs the jobs,
appends their events and commits: group commit, fairness and deadlines in one place. Each event has
the hash of everything before it, and a process checks the chain of all that it reads.

A caller that has waited for its deadline is told that nothing was stored. Its job is not begun
after that; if it was under way and its commit comes later after all, the writer knows the events by
their mark and withdraws them.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, TypeVar

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite

from tether.runs.databases import Database, is_retried
from tether.runs.errors import StoreError, TamperedError

logger = logging.getLogger("tether.runs")

Result = TypeVar("Result")

tables = sql.MetaData()
Big = sql.BigInteger().with_variant(sql.Integer, "sqlite")
events = sql.Table(
    "tether_events",
    tables,
    sql.Column("seq", Big, primary_key=True, autoincrement=False),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("at", Big, nullable=False),
    sql.Column("mark", sql.LargeBinary, nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
    sql.Column("head", sql.LargeBinary, nullable=False),
    sql.Column("signature", sql.Text),
)
claims = sql.Table(
    "tether_claims",
    tables,
    sql.Column("name", sql.LargeBinary, primary_key=True),
    sql.Column("value", sql.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
cache = sql.Table(
    "tether_cache",
    tables,
    sql.Column("seq", Big, primary_key=True, autoincrement=False),
    sql.Column("content", sql.LargeBinary, nullable=False),
)
blobs = sql.Table(
    "tether_blobs",
    tables,
    sql.Column("digest", sql.Text, primary_key=True),
    sql.Column("content", sql.LargeBinary, nullable=False),
)

NO_HEAD = bytes(32)
_CLAIM = {
    name: each.on_conflict_do_update(index_elements=["name"], set_={"value": each.excluded.value})
    for name, each in (("sqlite", sqlite.insert(claims)), ("postgresql", postgresql.insert(claims)))
}
"""A claim is an index entry: the last one under a name counts."""
JOBS_PER_COMMIT = 64
"""How many calls share a transaction at most."""
EVENTS_PER_CACHE = 10_000
"""How many events, or hundredths of all, are folded again at most when a store is opened."""
CACHED = "cached"
"""The kind of the events that vouch for the cache: the digest of the state before them."""
SIGNED = ("settings", "round", "alarm", "act")
"""The kinds of events that a key signs, and with them all events before."""
_SINCE = sql.select(events).where(events.c.seq > sql.bindparam("seq")).order_by(events.c.seq)
_TENTHS = 1000


class Event(NamedTuple):
    """One entry of the log; `at` is in microseconds and never before the last event's."""

    seq: int
    kind: str
    at: int
    mark: bytes
    body: bytes
    head: bytes
    signature: str | None = None

    @classmethod
    def from_row(cls, row: Any) -> Event:
        """An event as the database returns it."""
        return cls(row[0], row[1], row[2], bytes(row[3]), bytes(row[4]), bytes(row[5]), row[6])

    def follows(self, seq: int, head: bytes) -> bool:
        """Whether this is the event after the one with that number and hash."""
        return self.seq == seq + 1 and self.head == link(head, *self[:5])


def link(head: bytes, seq: int, kind: str, at: int, mark: bytes, body: bytes) -> bytes:
    """The hash of an event and of everything before it."""
    state = blake2b(head + b"%d %d %s %s\n" % (seq, at, kind.encode(), mark), digest_size=32)
    state.update(body)
    return state.digest()


class Folded(Protocol):
    """What follows from the events so far."""

    def fold(self, event: Event) -> None:
        """Take in one event."""

    def dump(self) -> bytes:
        """Everything as bytes."""

    def load(self, content: bytes) -> None:
        """Undo `dump`."""


class Transaction:
    """What a job may do: look at the state, look up claims, append events."""

    def __init__(self, log: EventLog, connection: sql.Connection) -> None:
        self.log, self.connection = log, connection
        self.mark = b""
        self.appended: list[Event] = []
        self.claimed: dict[bytes, bytes] = {}
        self.stored_blobs: dict[str, bytes] = {}

    @property
    def state(self) -> Any:
        """The state after everything that was appended, also by this transaction."""
        return self.log.state

    @property
    def now(self) -> int:
        """The time of the next event in microseconds; it never runs backwards."""
        return max(time.time_ns() // 1000, self.log.at)

    def find(self, names: list[bytes]) -> dict[bytes, bytes]:
        """The claims among these names, with their values."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(names), _TENTHS):
            query = sql.select(claims).where(claims.c.name.in_(names[start : start + _TENTHS]))
            found |= {bytes(row[0]): bytes(row[1]) for row in self.connection.execute(query)}
        return found | {name: self.claimed[name] for name in names if name in self.claimed}

    def append(self, kind: str, body: bytes, claim: dict[bytes, bytes] | None = None) -> Event:
        """Add an event and fold it; what a job must refuse it refuses before."""
        log = self.log
        seq, at = log.seq + 1, self.now
        head = link(log.head, seq, kind, at, self.mark, body)
        signature = None
        if log.sign is not None and kind in SIGNED:
            signature = log.sign(head)
        event = Event(seq, kind, at, self.mark, body, head, signature)
        log.accept(event)
        self.appended.append(event)
        self.claimed |= claim or {}
        return event

    def blob(self, content: bytes) -> str:
        """Store bytes once, under their digest; the event that names it vouches for it."""
        digest = blob_digest(content)
        known = sql.select(blobs.c.digest).where(blobs.c.digest == digest)
        if digest not in self.stored_blobs and self.connection.execute(known).first() is None:
            self.stored_blobs[digest] = content
        return digest

    def flush(self) -> None:
        """Write everything that was appended."""
        if self.stored_blobs:
            rows = [{"digest": name, "content": each} for name, each in self.stored_blobs.items()]
            self.connection.execute(blobs.insert(), rows)
        if self.appended:
            self.connection.execute(events.insert(), [each._asdict() for each in self.appended])
        if self.claimed:
            entries = [{"name": name, "value": value} for name, value in self.claimed.items()]
            self.connection.execute(_CLAIM[self.connection.dialect.name], entries)


def blob_digest(content: bytes) -> str:
    """The name of stored bytes."""
    return blake2b(content, digest_size=32).hexdigest()


@dataclass
class _Job:
    work: Callable[[Transaction], Any]
    mark: bytes = field(default_factory=lambda: secrets.token_bytes(8))
    future: Future[Any] = field(default_factory=Future)
    gone: bool = False  # its caller was told that nothing was stored


class EventLog:
    """The events of one run, the state that follows from them, and the thread that writes.

    `undo(transaction, events)` withdraws what was stored for a caller who had been told otherwise.
    """

    def __init__(
        self,
        url: Any,
        new_state: Callable[[], Folded],
        *,
        deadline: float = 5.0,
        create: bool = True,
        sign: Callable[[bytes], str] | None = None,
        undo: Callable[[Transaction, list[Event]], None] | None = None,
    ) -> None:
        self.database = Database(url, create=create, deadline=deadline)
        self.deadline, self.sign, self._undo, self._new_state = deadline, sign, undo, new_state
        self.tampered: TamperedError | None = None
        self._connection: sql.Connection | None = None
        self._waiting: deque[_Job] = deque()
        self._turn = threading.Condition()
        self._closed, self._busy_since = False, 0.0
        self._unknown: set[bytes] = set()  # marks of commits of which nobody knows the outcome
        self._ghosts: list[Event] = []
        self._forget()
        self._prepare(create)
        self._process = os.getpid()
        self._thread = threading.Thread(
            target=_write, args=(weakref.ref(self), self._turn), daemon=True, name="tether-writer"
        )
        self._thread.start()

    # ---- what callers use ---------------------------------------------------------------------

    def submit(self, work: Callable[[Transaction], Result], seconds: float | None = None) -> Result:
        """Run a job in the next transaction; what it returned, once that is committed."""
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.database.name} was opened before this process was forked: open it anew"
            )
        job, limit = _Job(work), self.deadline if seconds is None else seconds
        with self._turn:
            if self._closed:
                raise StoreError(f"{self.database.name} is closed")
            self._waiting.append(job)
            self._turn.notify()
        try:
            result: Result = job.future.result(limit)
            return result
        except TimeoutError:
            return self._give_up(job, limit)

    def read(self, query: Callable[[sql.Connection], Result]) -> Result:
        """Read a snapshot; beside the writer where the database allows it."""
        if self.database.in_memory:
            return self.submit(lambda transaction: query(transaction.connection), 600.0)
        with self.database.reading() as connection:
            return query(connection)

    def close(self) -> None:
        """Finish what waits, and close; later calls are refused."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        if threading.current_thread() is not self._thread and os.getpid() == self._process:
            self._thread.join(self.deadline)
        self.database.engine.dispose()

    def replay(self, check: Callable[[Any, Event], Iterator[str]]) -> Iterator[str]:
        """Everything that is wrong: with the chain, with what may follow, with the cache."""
        state, seq, head, found = self._new_state(), 0, NO_HEAD, []

        def walk(connection: sql.Connection) -> None:
            nonlocal seq, head
            stream = connection.execution_options(stream_results=True, yield_per=1000)
            for row in stream.execute(_SINCE, {"seq": 0}):
                event = Event.from_row(row)
                if not event.follows(seq, head):
                    found.append(f"event {event.seq} ({event.kind}) is not as it was written")
                    return
                if event.kind == CACHED and event.body != _state_digest(state.dump()):
                    found.append(f"event {event.seq}: the cached state is not that of the events")
                try:
                    found.extend(check(state, event))
                    state.fold(event)
                except Exception as error:
                    found.append(f"event {event.seq} ({event.kind}) cannot follow: {error}")
                    return
                seq, head = event.seq, event.head

        self.read(walk)
        yield from found

    # ---- the state ----------------------------------------------------------------------------

    def accept(self, event: Event) -> None:
        """Fold an event that follows."""
        self.state.fold(event)
        self.seq, self.head, self.at = event.seq, event.head, event.at
        if event.kind == CACHED:
            self._cached_at = event.seq

    def _forget(self) -> None:
        self.state: Any = self._new_state()
        self.seq, self.head, self.at, self._cached_at = 0, NO_HEAD, 0, 0

    def _catch_up(self, connection: sql.Connection) -> None:
        """Fold what other processes have appended, and check that it follows."""
        if self.seq == 0:
            self._load_cache(connection)
        for row in connection.execute(_SINCE, {"seq": self.seq}):
            event = Event.from_row(row)
            if not event.follows(self.seq, self.head):
                raise TamperedError(
                    f"event {event.seq} of {self.database.name} is not as it was written: "
                    f"`tether verify` says more"
                )
            try:
                self.accept(event)
            except Exception as error:
                raise TamperedError(
                    f"event {event.seq} ({event.kind}) of {self.database.name} cannot follow on "
                    f"those before it: {error}"
                ) from error
            if event.mark in self._unknown:
                self._ghosts.append(event)
        self._unknown.clear()

    def _load_cache(self, connection: sql.Connection) -> None:
        """Begin with the cached state if an event of the chain vouches for it."""
        row = connection.execute(sql.select(cache).order_by(cache.c.seq.desc()).limit(1)).first()
        if row is None:
            return
        vouching = connection.execute(sql.select(events).where(events.c.seq == row[0])).first()
        if vouching is None:
            return
        event = Event.from_row(vouching)
        if event.kind == CACHED and event.body == _state_digest(bytes(row[1])):
            self.state.load(bytes(row[1]))
            self.seq, self.head, self.at = event.seq, event.head, event.at
            self._cached_at = event.seq

    def _keep_cache(self, transaction: Transaction) -> None:
        if self.seq - self._cached_at < max(EVENTS_PER_CACHE, self.seq // 100):
            return
        content = self.state.dump()
        transaction.mark = b""
        event = transaction.append(CACHED, _state_digest(content))
        transaction.connection.execute(cache.delete())
        transaction.connection.execute(cache.insert(), {"seq": event.seq, "content": content})

    # ---- the thread ---------------------------------------------------------------------------

    def _prepare(self, create: bool) -> None:
        database = self.database
        with database.errors("open"), database.engine.connect() as connection:
            if create:
                with database.writing(connection):
                    tables.create_all(connection)
            elif not sql.inspect(connection).has_table(events.name):
                raise StoreError(f"{database.name} holds no run of tether")

    def take(self) -> list[_Job]:
        """Wait for jobs; empty when there will be no more, or to let a forgotten log go."""
        with self._turn:
            if not self._waiting and not self._closed:
                self._turn.wait(1.0)
            batch = [
                self._waiting.popleft() for _ in range(min(len(self._waiting), JOBS_PER_COMMIT))
            ]
            started = [job for job in batch if not job.gone]
            self._busy_since = time.monotonic() if started else 0.0
            return started

    def run(self, batch: list[_Job]) -> None:
        """Commit a batch, and tell every caller what came of it."""
        outcomes = self._commit(batch)
        with self._turn:  # so that no caller gives up between the commit and its answer
            self._busy_since = 0.0
            for job, (result, error, appended) in zip(batch, outcomes, strict=True):
                if job.gone:
                    self._ghosts += appended
                elif error is not None:
                    job.future.set_exception(error)
                else:
                    job.future.set_result(result)

    @property
    def is_over(self) -> bool:
        """Whether the thread may end."""
        with self._turn:
            return self._closed and not self._waiting

    def leave(self) -> None:
        """Close the writer's own connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _commit(self, batch: list[_Job]) -> list[tuple[Any, BaseException | None, list[Event]]]:
        until = time.monotonic() + self.deadline
        while True:
            try:
                with self.database.errors("write"):
                    return self._try(batch)
            except BaseException as error:
                self._forget()
                self.leave()
                if isinstance(error, TamperedError):
                    self.tampered = error
                cause = error.__cause__
                if cause is not None and is_retried(cause) and time.monotonic() < until:
                    continue
                self._unknown |= {job.mark for job in batch}
                told = error if isinstance(error, StoreError) else StoreError(str(error))
                if not isinstance(error, (StoreError, OSError)):
                    logger.exception("the writer of %s failed", self.database.name)
                return [(None, told, [])] * len(batch)

    def _try(self, batch: list[_Job]) -> list[tuple[Any, BaseException | None, list[Event]]]:
        if self._connection is None:
            self._connection = self.database.engine.connect()
        outcomes: list[tuple[Any, BaseException | None, list[Event]]] = []
        with self.database.writing(self._connection):
            self._catch_up(self._connection)
            transaction = Transaction(self, self._connection)
            if self._ghosts and self._undo is not None:
                self._undo(transaction, self._ghosts)
            for job in batch:
                before, transaction.mark = len(transaction.appended), job.mark
                try:
                    result, error = job.work(transaction), None
                except Exception as raised:
                    if len(transaction.appended) > before:
                        raise  # what it appended cannot be taken back: nothing of the batch is kept
                    result, error = None, raised
                outcomes.append((result, error, transaction.appended[before:]))
            self._keep_cache(transaction)
            transaction.flush()
        self._ghosts = []
        return outcomes

    def _give_up(self, job: _Job, limit: float) -> Any:
        with self._turn:
            if job.future.done():
                return job.future.result()
            job.gone = True
            is_stuck = self._busy_since and time.monotonic() - self._busy_since >= self.deadline
            if is_stuck and self._connection is not None:
                self.database.interrupt(self._connection)
            self._turn.notify()
        raise StoreError(
            f"{self.database.name} did not answer within the deadline of {limit:g} s. Nothing was "
            f"stored; repeat the call when the store is available again"
        )


def _state_digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=32).digest()


def _write(log_reference: weakref.ref[EventLog], turn: threading.Condition) -> None:
    """The writer thread; it ends when the log is closed or forgotten."""
    while True:
        log = log_reference()
        if log is None or log.is_over:
            if log is not None:
                log.leave()
            return
        batch = log.take()
        if batch or (log._ghosts and log._undo is not None):
            log.run(batch)
        del log, batch
