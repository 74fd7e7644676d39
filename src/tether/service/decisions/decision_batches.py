"""Decisions of many requests in one call to the store, and an answer in time whatever it does.

Requests that arrive while the store is busy wait for the next call together. A request that has
waited for too long is answered without the store: the old system serves the key, and the release
counts nothing of it. A store that does not answer for much longer, or fails, is lost: then requests
do not wait for it at all, but whenever no call is under way one of them tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from tether.rounds.errors import StoreError
from tether.service.decisions.spooled_answers import Decisions, SpooledAnswers, Waiting

Assign = Callable[[Sequence[bytes], Callable[[], bool]], list[str | None]]
"""The systems of keys; the second argument says whether anyone still waits for them."""

KEYS_PER_CALL = 1_000
"""How many keys one call to the store has, unless a single request has more."""
MAX_CALLS_WAITING = 20
"""How many calls may wait for the store; beyond them requests are answered without it."""
LOST_AFTER_WAITS = 8
"""A store that is silent for so many times as long as a request waits is lost, and not busy."""
SPOOL_SHARE = 0.2
"""How much longer an answer may wait for the disk, as a share of the wait for the store."""

log = logging.getLogger("tether.service")


@dataclass(eq=False)
class _Batch:
    """What one call to the store asks for."""

    requests: list[Waiting] = field(default_factory=list)
    count: int = 0
    timer: asyncio.TimerHandle | None = None
    is_given_up: bool = False
    is_stopped: bool = False  # before it was stored, since nobody waited for it
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def is_wanted(self) -> bool:
        """Whether requests wait for it; if not, the call stops."""
        self.is_stopped = self.is_given_up
        return not self.is_stopped

    @property
    def keys(self) -> list[bytes]:
        return [key for keys, _ in self.requests for key in keys]


class DecisionBatches:
    """Collects requests for decisions; for one event loop.

    `assign` is called in a thread of its own, with the keys of many requests. What is answered
    without it is given to `keep` first, in another thread.
    """

    def __init__(
        self,
        assign: Assign,
        *,
        answer_within: float,
        keep: Callable[[Sequence[bytes]], None] | None = None,
    ) -> None:
        self._assign, self._answer_within = assign, answer_within
        self._spooled = SpooledAnswers(keep, within=SPOOL_SHARE * answer_within)
        self._thread = ThreadPoolExecutor(1, "tether-decisions")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[_Batch] = deque()
        self._called: _Batch | None = None
        self._is_scheduled = False
        self.is_lost = False  # it can be read, perhaps, but takes no decisions

    async def decide(self, keys: Sequence[bytes]) -> Decisions:
        """The system of each key, or None where the store has not answered in time."""
        loop = self._loop = asyncio.get_running_loop()
        answer: asyncio.Future[Decisions] = loop.create_future()
        is_closed = self._is_closed(len(keys))
        is_full = is_closed and len(self._waiting) >= MAX_CALLS_WAITING
        if is_full or (self.is_lost and self._called is not None):
            self._spooled.give([(keys, answer)])
            return await answer
        if is_closed:
            batch = _Batch()
            batch.timer = loop.call_later(self._answer_within, self._give_up, batch)
            self._waiting.append(batch)
        batch = self._waiting[-1]
        batch.requests.append((keys, answer))
        batch.count += len(keys)
        if self._called is None and not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._call, loop)  # after the requests that have arrived already
        return await answer

    async def settle(self, keys: Sequence[bytes], within: float) -> None:
        """Wait for a call that may still store some of these keys, though nobody waits for it.

        Their losses are stored after that: a row whose loss came before it would never have one.
        """
        batch = self._called
        if batch is None or not batch.is_given_up or set(keys).isdisjoint(batch.keys):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await batch.ended.wait()

    async def close(self) -> None:
        """Answer what waits, and wait for the call that is under way."""
        for batch in list(self._waiting):
            self._give_up(batch)
        await asyncio.to_thread(self._thread.shutdown)
        await self._spooled.close()

    def note_recovery(self) -> None:
        """Believe that the store takes decisions again: something else was written to it.

        Another thread may say so.
        """
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._recover)

    def _recover(self) -> None:
        if self._called is None:
            self._note(is_lost=False)

    def _is_closed(self, more: int) -> bool:
        """Whether the last batch that waits cannot take so many keys more."""
        return not self._waiting or self._waiting[-1].count + more > KEYS_PER_CALL

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ask the store for the next batch."""
        self._is_scheduled = False
        if self._called is not None or not self._waiting:
            return
        batch = self._called = self._waiting.popleft()
        done = self._thread.submit(self._assign, batch.keys, batch.is_wanted)
        done.add_done_callback(
            lambda finished: loop.call_soon_threadsafe(self._finish, loop, batch, finished)
        )

    def _finish(
        self, loop: asyncio.AbstractEventLoop, batch: _Batch, finished: Future[Decisions]
    ) -> None:
        """Give each request its part, and ask for what has come meanwhile."""
        self._called = None
        if batch.timer is not None:
            batch.timer.cancel()
        error = finished.exception()
        if error is not None:
            known = error if isinstance(error, StoreError) else None
            log.error(
                "decisions failed; the old system answers: %s",
                known or type(error).__name__,
                exc_info=None if known else error,
            )
        systems: Decisions = finished.result() if error is None else [None] * batch.count
        batch.ended.set()
        if not batch.is_stopped:  # otherwise it says nothing about the store
            self._note(is_lost=None in systems)
        begin, unstored = 0, []
        for keys, answer in batch.requests:
            found = systems[begin : begin + len(keys)]
            begin += len(keys)
            if answer.done():
                continue
            if None in found:
                unstored.append((keys, answer))
            else:
                answer.set_result(found)
        if unstored:
            self._spooled.give(unstored)
        self._call(loop)

    def _give_up(self, batch: _Batch) -> None:
        """Answer requests without the store; those that have not been asked for never will be."""
        batch.is_given_up = True
        if batch.timer is not None:
            batch.timer.cancel()
        if batch is not self._called:
            self._waiting.remove(batch)
        else:
            rest = (LOST_AFTER_WAITS - 1) * self._answer_within
            batch.timer = asyncio.get_running_loop().call_later(rest, self._note_loss, batch)
        self._spooled.give(batch.requests)

    def _note_loss(self, batch: _Batch) -> None:
        if batch is self._called:
            self._note(is_lost=True)

    def _note(self, *, is_lost: bool) -> None:
        if is_lost == self.is_lost:
            return
        self.is_lost = is_lost
        log.log(
            logging.ERROR if is_lost else logging.INFO,
            "decisions are not stored; the old system answers"
            if is_lost
            else "decisions are stored again",
        )
