"""The truth of a run: an append-only log of events with a hash chain, written by one thread.

Every call hands a job to the writer thread of its process. The thread takes what waits, begins one
transaction without any other writer, folds what other processes have appended, runs the jobs,
appends their events and commits: group commit, fairness and deadlines in one place.

Each event has the hash of everything before it, and a process checks all that it reads: that the
last event it knows is still there, that each one follows, and in a signed run that the last one has
a signature, which vouches for all before it. A log that fails is never obeyed or written again:
`tampered` says why, and the run serves the safe policy or the old system.

A caller that has waited for its deadline is told that nothing was stored. Its job is not begun
after that; if its commit comes nevertheless, the next transaction of this writer disowns its rows.
Others do not know that before this process has appended something in a later transaction. Until
then, who answers from a row again notes that (`repeated`), and a row is withdrawn when every call
that has answered from it has disowned it. What happened meanwhile waits in the outbox and is
delivered by the next transaction, once: its mark is claimed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sql

from tether._core import signing
from tether.runs.body import pack, unpack
from tether.runs.databases import Database, Statement
from tether.runs.errors import StoreError, TamperedError
from tether.runs.outbox import OUTBOX_MARK, Outbox, Waiting
from tether.runs.state import CACHED, NO_HEAD, NOBODY, SETTLED, State

if TYPE_CHECKING:
    from tether._core.arrays import Integers
    from tether._core.signing import PrivateKey, PublicKey

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

# What every transaction says, in words that both databases take.
_SINCE = (
    "SELECT seq, kind, at, mark, CASE WHEN seq > {0} THEN body END, head, signature "
    "FROM tether_events WHERE seq >= {0} ORDER BY seq LIMIT {1}"
)
"""The last event that is known, without its body, and some after it."""
_FIND = "SELECT name, value FROM tether_claims WHERE name IN ({})"
_APPEND = "INSERT INTO tether_events (seq, kind, at, mark, body, head, signature) VALUES {}"
_CLAIM = (
    "INSERT INTO tether_claims (name, value) VALUES {} "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
"""A claim is an index entry: the last one under a name counts."""
JOBS_PER_COMMIT = 64
"""How many calls share a transaction at most."""
EVENTS_PER_CACHE = 10_000
"""How many events, or hundredths of all, are folded again at most when a store is opened."""
PURPOSE = "tether run"
"""What a signature of an event is for."""
EVENTS_AT_ONCE = 100
"""How many events are read at once, with their bodies."""
PROBE_SECONDS = 1.0
"""How often an idle writer tries a store that did not answer."""
VALUES_PER_QUERY = 999
"""What every SQLite takes."""
BYTES_PER_QUERY = 1 << 20
"""A larger value has a statement of its own."""


class Event(NamedTuple):
    """One entry of the log; `at` is what the clock of the process said, in microseconds."""

    seq: int
    kind: str
    at: int
    mark: bytes
    body: bytes
    head: bytes
    signature: str | None = None

    @property
    def transaction(self) -> int:
        """The event before its transaction, which its mark names behind its process."""
        return int.from_bytes(self.mark[8:], "big") if len(self.mark) == 16 else SETTLED

    def follows(self, seq: int, head: bytes) -> bool:
        """Whether this is the event after the one with that number and hash."""
        types = [type(each) for each in self[:6]]  # SQLite may hold others than were written
        is_next = types == [int, str, int, bytes, bytes, bytes] and self.seq == seq + 1
        return is_next and self.head == link(head, *self[:5])


def link(head: bytes, seq: int, kind: str, at: int, mark: bytes, body: bytes) -> bytes:
    """The hash of an event and of everything before it."""
    state = blake2b(head + b"%d %d %s %s\n" % (seq, at, kind.encode(), mark), digest_size=32)
    state.update(body)
    return state.digest()


def follow(
    given: Iterable[Event], seq: int = 0, head: bytes = NO_HEAD, name: str = "the run"
) -> Iterator[Event]:
    """Events as long as each follows on the one before it; an error names the first that does not.

    `seq` and `head` are those of the event before the first.
    """
    for event in given:
        if not event.follows(seq, head):
            raise TamperedError(
                f"event {event.seq} ({event.kind}) of {name} is not as it was written"
            )
        seq, head = event.seq, event.head
        yield event


def is_signed(event: Event, key: PublicKey) -> bool:
    """Whether an event is signed with the key of its run, which vouches for all before it."""
    return signing.verify(event.head, event.signature, key, purpose=PURPOSE)


def read_events(
    connection: sql.Connection, after: int = 0, until: int = 1 << 62
) -> Iterator[Event]:
    """Events in their order; a few at a time from the database."""
    query = sql.select(events).where(events.c.seq > after, events.c.seq <= until)
    stream = connection.execution_options(stream_results=True, yield_per=EVENTS_AT_ONCE)
    return map(Event._make, stream.execute(query.order_by(events.c.seq)))


class Transaction:
    """What a job may do: look at the state, look up claims, append events."""

    def __init__(self, log: EventLog, connection: sql.Connection) -> None:
        self.log, self.connection, self.number = log, connection, log.state.seq
        self.own_mark = bytes.fromhex(log.writer) + self.number.to_bytes(8, "big")
        self.begin(b"")
        self.appended: list[Event] = []
        self.claimed: dict[bytes, bytes] = {}

    def begin(self, mark: bytes) -> None:
        """A job begins: its events have this mark, and all the same time."""
        self.mark, self.clock = mark, time.time_ns() // 1000

    @property
    def state(self) -> State:
        """The state after everything that was appended, also by this transaction."""
        return self.log.state

    @property
    def now(self) -> int:
        """The time of the run in microseconds; it never runs backwards."""
        return int(self.log.state.time_at(self.clock))

    def find(self, names: list[bytes]) -> dict[bytes, bytes]:
        """The claims among these names, with their values."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(names), VALUES_PER_QUERY):
            part = names[start : start + VALUES_PER_QUERY]
            query = _FIND.format(", ".join("?" * len(part)))
            found |= dict(self.log.database.run(self.connection, (query, part)))
        return found | {name: self.claimed[name] for name in names if name in self.claimed}

    def append(self, kind: str, body: bytes, claim: dict[bytes, bytes] | None = None) -> Event:
        """Add an event and fold it; what a job must refuse it refuses before."""
        log = self.log
        if log.is_read_only:
            raise StoreError(f"{log.database.name} is signed: pass its private key")
        seq = log.state.seq + 1
        head = link(log.state.head, seq, kind, self.clock, self.mark, body)
        event = Event(seq, kind, self.clock, self.mark, body, head)
        log.is_ahead = True
        log.state.fold(event)
        self.appended.append(event)
        self.claimed |= (claim or {}) | mark_claim(self.mark)
        return event

    def blob(self, content: bytes) -> str:
        """Store bytes once, under their digest; the event that names it vouches for it."""
        digest = blob_digest(content)
        known = sql.select(blobs.c.digest).where(blobs.c.digest == digest)
        if self.connection.execute(known).first() is None:
            self.connection.execute(blobs.insert(), {"digest": digest, "content": content})
        return digest

    def repeat(self, rows: Integers) -> None:
        """Before a call is answered from stored rows: note those that may yet be disowned."""
        if not len(rows):
            return
        latest, writer = self.state.latest, self.log.writer
        is_own = latest.get(writer, self.number) != self.number  # disowned before, or for good
        open_ = {NOBODY, *latest.values()} - ({latest[writer]} if is_own else set())
        last = self.state.rows["transaction"][rows].tolist()
        if (chosen := np.array([each in open_ for each in last])).any():
            self.append("repeated", pack({}, row=rows[chosen]))

    def disown(self, given: list[Event]) -> None:
        """Disown the rows of calls whose callers were told that nothing was stored."""
        for event in given:
            if event.kind in ("rows", "repeated"):
                header, columns = unpack(event.body)
                count = len(columns.get("arm", ()))
                rows = columns.get("row", header.get("first", 0) + np.arange(count, dtype=np.int64))
                header = {"reason": "answered otherwise", "calls": 1}
                self.append("withdrawn", pack(header, row=rows))

    def commit(self) -> None:
        """Write everything that was appended, and commit it."""
        if self.appended and self.log.key is not None:
            last = self.appended[-1]
            signature = signing.sign(last.head, self.log.key, purpose=PURPOSE)
            self.appended[-1] = last._replace(signature=signature)
        database = self.log.database
        rows = [*_insert(_APPEND, self.appended), *_insert(_CLAIM, [*self.claimed.items()])]
        for each in rows[:-2]:  # one after the other, where they are many
            database.run(self.connection, each)
        database.commit(self.connection, *rows[-2:])


def _insert(query: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[Statement]:
    """Statements that insert rows, as many at a time as every database takes."""
    places, values, room = list[str](), list[Any](), BYTES_PER_QUERY
    for row in rows:
        size = sum(len(each) for each in row if isinstance(each, bytes))
        if places and (size > room or len(values) + len(row) > VALUES_PER_QUERY):
            yield query.format(", ".join(places)), values
            places, values, room = [], [], BYTES_PER_QUERY
        places.append(f"({', '.join('?' * len(row))})")
        values += row
        room -= size
    if places:
        yield query.format(", ".join(places)), values


def blob_digest(content: bytes) -> str:
    """The name of stored bytes, policies and states."""
    return blake2b(content, digest_size=32).hexdigest()


def mark_claim(mark: bytes) -> dict[bytes, bytes]:
    """The entry of the index by which a delivery from an outbox is known to have been made."""
    return {mark: b""} if mark.startswith(OUTBOX_MARK) else {}


_Outcome = tuple[Any, BaseException | None, list[Event]]
"""What a job returned or raised, and what it appended."""
_Job = tuple[Callable[[Transaction], Any], Future[Any]]
"""What is to be done; its future is cancelled if its caller was told that nothing was stored."""


class EventLog:
    """The events of one run, the state that follows from them, and the thread that writes.

    `deliver(transaction, kind, header, columns)` carries out a call that waited in the outbox.
    """

    def __init__(
        self,
        url: Any,
        *,
        deadline: float = 5.0,
        create: bool = True,
        key: PrivateKey | None = None,
        outbox: Outbox | None = None,
        deliver: Callable[..., Any],
    ) -> None:
        self.database = Database(url, create=create, deadline=deadline)
        self.deadline, self.outbox = deadline, outbox
        self.key = None if key is None else signing.read_private_key(key)
        self.public_key = None if self.key is None else self.key.public_key()
        self._deliver = deliver
        self.tampered: TamperedError | None = None
        self.is_available = True
        self._connection: sql.Connection | None = None
        self._waiting: deque[_Job] = deque()
        self._turn = threading.Condition()
        self._closed, self._busy_since = False, 0.0
        self.writer = secrets.token_hex(8)
        self._ghosts: list[Event] = []  # of calls that were answered otherwise, if they are stored
        self._forget()
        database = self.database
        with database.errors("open"), database.engine.connect() as connection:
            if create:
                database.begin(connection)
                tables.create_all(connection)
                database.commit(connection)
            elif not sql.inspect(connection).has_table(events.name):
                raise StoreError(f"{database.name} does not hold a tether run")
        self._process = os.getpid()
        self._thread = threading.Thread(
            target=_write, args=(weakref.ref(self),), daemon=True, name="tether-writer"
        )
        self._thread.start()

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be appended: no key for a signed run, or a broken chain."""
        return self.tampered is not None or (self.key is None and self.state.is_signed)

    # ---- what callers use ---------------------------------------------------------------------

    def submit(self, work: Callable[[Transaction], Result], seconds: float | None = None) -> Result:
        """Run a job in the next transaction; what it returned, once that is committed."""
        future, limit = self._enqueue(work), self.deadline if seconds is None else seconds
        try:
            return future.result(limit)
        except TimeoutError:
            return self._give_up(future, limit)

    async def submit_async(self, work: Callable[[Transaction], Result], seconds: float) -> Result:
        """The same on an event loop."""
        future = self._enqueue(work)
        answer = asyncio.wrap_future(future)
        await asyncio.wait((answer,), timeout=seconds)
        return answer.result() if answer.done() else self._give_up(future, seconds)

    def _enqueue(self, work: Callable[[Transaction], Result]) -> Future[Result]:
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.database.name} was opened before this process was forked: open it again"
            )
        future = Future[Result]()
        with self._turn:
            if self._closed:
                raise StoreError(f"{self.database.name} is closed")
            if self.tampered is not None:
                raise self.tampered
            self._waiting.append((work, future))
            self._turn.notify()
        return future

    def _give_up(self, future: Future[Result], limit: float) -> Result:
        """An error for a caller that has waited for its deadline, unless the result comes now."""
        if not future.cancel():
            return future.result()
        with self._turn:
            is_stuck = self._busy_since and time.monotonic() - self._busy_since >= self.deadline
            if is_stuck and self._connection is not None:
                self.database.interrupt(self._connection)
        raise StoreError(
            f"{self.database.name} did not answer within the deadline of {limit:g} s. Nothing was "
            f"stored; repeat the call when the store is available again"
        )

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
        self._thread.join(self.deadline)
        if self.outbox is not None:
            self.outbox.close()
        self.database.engine.dispose()

    # ---- the state ----------------------------------------------------------------------------

    def _forget(self) -> None:
        self.state = State()
        self.is_ahead: bool = False  # whether the state has events that are not committed

    def _catch_up(self, rows: Iterator[tuple[Any, ...]]) -> None:
        """Fold what other processes have appended, and check that it follows."""
        name, event, seq, head = self.database.name, None, self.state.seq, self.state.head
        if seq:
            known = next(rows, None)
            if known is None or known[0] != seq or known[5] != head:
                raise TamperedError(f"event {seq} of {name} is gone or was changed")
        for event in follow(map(Event._make, rows), seq, head, name):
            try:
                self.state.fold(event)
            except Exception as error:
                raise TamperedError(
                    f"event {event.seq} ({event.kind}) of {name} does not follow from those "
                    f"before it: {error}"
                ) from error
        if event and self.public_key is not None and not is_signed(event, self.public_key):
            raise TamperedError(
                f"event {event.seq} ({event.kind}) of {name} is not signed with the key of this run"
            )

    def _since(self, connection: sql.Connection) -> Iterator[tuple[Any, ...]]:
        """Begin a transaction; the last event that is known, and all after it."""
        rows = self.database.begin(connection, _SINCE.format(self.state.seq, EVENTS_AT_ONCE))
        yield from rows
        while len(rows) == EVENTS_AT_ONCE:
            query = _SINCE.format(rows[-1][0], EVENTS_AT_ONCE)
            rows = self.database.run(connection, (query, ()))
            yield from rows[1:]

    def _load_cache(self, connection: sql.Connection) -> None:
        """Begin with the cached state if an event of the chain vouches for it."""
        row = connection.execute(sql.select(cache)).first()
        found = row and connection.execute(sql.select(events).where(events.c.seq == row[0])).first()
        if row and found and is_cached(event := Event._make(found), row[1]):
            self.state = State.load(row[1])
            if event.follows(self.state.seq, self.state.head):
                self.state.fold(event)
            else:
                self._forget()

    def _keep_cache(self, transaction: Transaction) -> None:
        since = self.state.seq - self.state.cached
        if since < max(EVENTS_PER_CACHE, self.state.seq // 100) or self.is_read_only:
            return
        transaction.begin(b"")
        content = self.state.dump()
        event = transaction.append(CACHED, blob_digest(content).encode())
        transaction.connection.execute(cache.delete())
        transaction.connection.execute(cache.insert(), {"seq": event.seq, "content": content})

    # ---- the thread ---------------------------------------------------------------------------

    def work(self) -> bool:
        """Commit what waits, or do what there is to do although nobody waits; False at the end."""
        with self._turn:
            # what waits in the outbox comes first: a loss may be of a row that is still there
            is_behind = len(self.outbox or ()) > JOBS_PER_COMMIT
            if not (self._closed or (self.is_available if is_behind else self._waiting)):
                self._turn.wait(PROBE_SECONDS)
            count = 0 if is_behind else min(len(self._waiting), JOBS_PER_COMMIT)
            batch = [self._waiting.popleft() for _ in range(count)]
            is_over = self._closed and not (count or (is_behind and self.is_available))
        batch = [job for job in batch if not job[1].cancelled()]
        has_chores = self.outbox or self._ghosts or not self.is_available
        if batch or (has_chores and self.tampered is None):
            self._run(batch)
        if is_over:
            self._leave()
        return not is_over

    def _run(self, batch: list[_Job]) -> None:
        """Commit a batch, and tell every caller what came of it."""
        self._busy_since = time.monotonic()
        outcomes = self._commit(batch)
        with self._turn:
            self._busy_since = 0.0
        for (_, future), (result, error, appended) in zip(batch, outcomes, strict=True):
            if not future.set_running_or_notify_cancel():  # from here on nobody gives up
                self._ghosts += appended
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

    def _leave(self) -> None:
        """Close the writer's own connection."""
        if self._connection is not None:
            with suppress(Exception):
                if not self.database.is_sqlite:  # nothing can be said to one that is lost
                    self._connection.invalidate()
                self._connection.close()
            self._connection = None

    def _commit(self, batch: list[_Job]) -> list[_Outcome]:
        try:
            with self.database.errors("write"):
                outcomes = self._try(batch)
            self.is_available = True
            return outcomes
        except BaseException as error:
            if self.is_ahead:
                self._forget()
            self._leave()
            if isinstance(error, TamperedError):
                logger.error("%s: only the safe policy or the old system serves", error)
                self.tampered = error
            elif isinstance(error, StoreError):
                self.is_available = False
            else:
                logger.exception("the writer of %s failed", self.database.name)
                error = StoreError(f"could not write {self.database.name}: {error}")
            return [(None, error, [])] * len(batch)

    def _try(self, batch: list[_Job]) -> list[_Outcome]:
        if self._connection is None:
            self._connection = self.database.engine.connect()
        waited = self.outbox.first(JOBS_PER_COMMIT) if self.outbox is not None else []
        if self.state.seq == 0:
            self._load_cache(self._connection)
        self._catch_up(self._since(self._connection))
        transaction = Transaction(self, self._connection)
        last = self.state.latest.get(self.writer)  # it has disowned those before it
        self._ghosts = [each for each in self._ghosts if each.transaction == last]
        if self._ghosts:
            self._do(transaction, lambda t: t.disown(self._ghosts), transaction.own_mark)
        for each in waited:
            self._hand_over(transaction, each)
        outcomes = [self._do(transaction, work, transaction.own_mark) for work, _ in batch]
        self._keep_cache(transaction)
        self._ghosts += transaction.appended  # if the commit fails, and comes nevertheless
        transaction.commit()
        self._ghosts, self.is_ahead = [], False
        if self.outbox is not None:
            self.outbox.remove(waited)
        return outcomes

    def _do(self, transaction: Transaction, work: Callable[..., Any], mark: bytes) -> _Outcome:
        """Run one job; one that refuses after it appended something would spoil the batch.

        An error of the database is not a refusal: what waited in the outbox would be thrown away.
        """
        before = len(transaction.appended)
        transaction.begin(mark)
        try:
            result = work(transaction)
        except Exception as error:
            if len(transaction.appended) > before or isinstance(error, self.database.failures):
                raise
            return None, error, []
        if (raised := self.state.raises) is not None:
            header = {"monitor": raised[0], "message": raised[1]}
            transaction.append("alarm", pack(header))
        return result, None, transaction.appended[before:]

    def _hand_over(self, transaction: Transaction, waiting: Waiting) -> None:
        """Deliver what waited in the outbox, unless it was delivered before."""
        if transaction.find([waiting.mark]):
            return
        given = waiting.kind, *unpack(waiting.body)
        _, error, _ = self._do(transaction, lambda t: self._deliver(t, *given), waiting.mark)
        if error is not None:
            logger.warning("what waited for %s was refused: %s", self.database.name, error)


def is_cached(event: Event, content: bytes) -> bool:
    """Whether an event vouches for this cached state."""
    return event.kind == CACHED and event.body == blob_digest(content).encode()


def _write(reference: weakref.ref[EventLog]) -> None:
    """The writer thread; it ends when the log is closed or forgotten."""
    while (log := reference()) is not None and log.work():
        del log
