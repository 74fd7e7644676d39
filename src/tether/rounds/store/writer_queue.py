"""A queue in which the writers of one SQLite store wait, so that each gets its turn.

SQLite has one writer at a time and no order among those who wait: whoever tries at the right moment
comes first, and one of eight writers waits for seconds. Here each writer draws a ticket and goes
when all who came before have gone.

The queue only decides the order. SQLite's own lock protects the store, so a writer that cannot use
the queue (no permission, a system without file locks) or that waits too long behind one that is
frozen goes past it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import TIMEOUT_MAX
from weakref import WeakSet

from tether.rounds.store import deadline
from tether.rounds.store.fair_lock import FairLock

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows)
    fcntl = None  # type: ignore[assignment]

QUEUE_SUFFIX = "-queue"
"""The queue of a store is a file beside it, with this at the end of its name."""
QUEUE_PATIENCE_SECONDS = 1.0
"""How long a writer stays in a queue in which nobody moves."""
TICKET_PATIENCE_SECONDS = 0.1
"""How long a writer tries to draw a ticket, which takes microseconds."""
QUEUE_POLL_SECONDS = 0.0005
"""How long a writer sleeps before it looks whether the queue has moved."""
TURN_POLL_SECONDS = 0.0001
"""The same for the writer that comes next."""
_NUMBER_BYTES = 8
_NEXT, _FIRST, _TICKETS = 0, 8, 16
_MAX_TICKET = 2**62


class WriterQueue:
    """The queue of the store in a file, for all threads of this process and all other processes.

    There should be one queue per store in a process: others would get out of order.
    """

    def __init__(self, store: str | Path) -> None:
        self._store = Path(store)
        self._path = self._store.with_name(self._store.name + QUEUE_SUFFIX)
        self.forget()
        _queues.add(self)

    def forget(self) -> None:
        """Start anew: a child process has neither its parent's threads nor its file locks."""
        self._threads = FairLock()

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Wait for one's turn; the next writer may go when the block ends.

        False if there was no turn: the deadline has passed, the queue cannot be used, or nobody
        moved in it. The block runs in any case.
        """
        threads, place = self._threads, None
        if not threads.acquire(min(deadline.remaining(), TIMEOUT_MAX)):
            yield False
            return
        try:
            place = self._take_place()
            yield place is not None and place.wait()
        finally:
            if place is not None:
                place.leave()
            threads.release()

    def _take_place(self) -> _Place | None:
        if fcntl is None:  # pragma: no cover (Windows)
            return None
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return _Place(os.open(self._path, flags, stat.S_IMODE(self._store.stat().st_mode)))
        except OSError:
            return None


class _Place:
    """A place in the queue.

    The file holds two numbers: the next ticket, and the first ticket that is worth waiting for.
    Whoever waits or writes has a lock on the byte with the number of its ticket, after these two.
    The system takes the lock away if the process dies. A number is not used again, so that a ticket
    that was free once stays free.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._has_turn = False

    def wait(self) -> bool:
        """Draw a ticket, and wait until all earlier ones are free; False if that failed."""
        try:
            ticket = self._draw_ticket()
            self._has_turn = ticket is not None and self._wait_for_turn(ticket)
        except OSError:  # a file system without locks, or that is full
            return False
        return self._has_turn

    def leave(self) -> None:
        """Let the next writer go."""
        with suppress(OSError):
            if self._has_turn:
                self._write(_FIRST, self._ticket + 1)
        os.close(self._file)  # and with it go the locks

    def _draw_ticket(self) -> int | None:
        end = time.monotonic() + TICKET_PATIENCE_SECONDS
        while not self._lock(_NEXT, exclusive=True):
            if time.monotonic() > end:
                return None
            time.sleep(TURN_POLL_SECONDS)
        self._ticket = self._read(_NEXT) % _MAX_TICKET
        # nobody can draw the following ticket before the byte of this one is locked
        drawn = self._lock(_TICKETS + self._ticket, exclusive=True)
        if self._read(_FIRST) > self._ticket:
            self._write(_FIRST, self._ticket)
        self._write(_NEXT, self._ticket + 1)
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _NEXT)
        return self._ticket if drawn else None

    def _wait_for_turn(self, ticket: int) -> bool:
        before, moved = self._read(_FIRST), time.monotonic()
        while before < ticket:
            if self._lock(_TICKETS + before):
                before, moved = before + 1, time.monotonic()
            elif deadline.passed():
                return False
            elif time.monotonic() - moved > QUEUE_PATIENCE_SECONDS:
                self._write(_FIRST, ticket)  # nobody need wait for the same ones again
                return False
            else:
                time.sleep(TURN_POLL_SECONDS if before == ticket - 1 else QUEUE_POLL_SECONDS)
        return True

    def _lock(self, byte: int, *, exclusive: bool = False) -> bool:
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.lockf(self._file, kind | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _read(self, place: int) -> int:
        content = os.pread(self._file, _NUMBER_BYTES, place)
        return int.from_bytes(content, "little")

    def _write(self, place: int, number: int) -> None:
        os.pwrite(self._file, number.to_bytes(_NUMBER_BYTES, "little"), place)


_queues: WeakSet[WriterQueue] = WeakSet()


def _forget_places_of_the_parent() -> None:
    for queue in list(_queues):
        queue.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_places_of_the_parent)
