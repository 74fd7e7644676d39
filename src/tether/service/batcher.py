"""Requests that wait are answered together, in one transaction, each within its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from tether.runs.errors import StoreError, TamperedError
from tether.runs.event_log import EventLog, Job, Transaction
from tether.service.api import ApiError

PAUSE_SECONDS = 0.02
"""How long a store that has refused a call is left alone."""
LAST_SECONDS = 5.0
"""How long the end of a service waits for answers."""


@dataclass(eq=False)
class _Batch:
    """What one transaction answers."""

    waiting: list[_Waiting] = field(default_factory=list)
    job: Job | None = None


@dataclass(eq=False)
class _Waiting:
    item: Any
    answer: asyncio.Future[Any]
    error: Exception  # what it is told if it gives up
    batch: _Batch | None = None  # None while a store that has refused it is left alone


class Batcher:
    """Answers what many requests ask for; for one event loop.

    `call(transaction, items)` runs in the thread of the writer when a transaction begins, with
    everything that waits by then. It returns an answer for each item, or an exception for one that
    failed alone. What the store has not taken is tried again until the time of an item is over. An
    item in a transaction that is not committed by then gives all of it up, so that it leaves no
    row; the others join the next one.
    """

    def __init__(
        self, log: EventLog, call: Callable[[Transaction, list[Any]], Sequence[Any]]
    ) -> None:
        self._log, self._call = log, call
        self._lock, self._next = Lock(), _Batch()
        self._asked = set[_Waiting]()
        self._is_closing = False

    async def ask(self, item: Any, within: float) -> Any:
        """The answer to one item; a `StoreError` if there was none in time."""
        if self._is_closing:
            raise ApiError(503, "the service is shutting down")
        loop = asyncio.get_running_loop()
        silence = StoreError(f"the store did not answer within {within:g} s")
        waiting = _Waiting(item, loop.create_future(), silence)
        timer = loop.call_later(within, self._give_up, waiting)
        self._asked.add(waiting)
        try:
            self._put(waiting)
            return await waiting.answer
        finally:
            timer.cancel()
            self._asked.discard(waiting)

    async def close(self) -> None:
        """Let what waits end within a time, and refuse the rest."""
        self._is_closing, loop = True, asyncio.get_running_loop()
        for each in self._asked:
            loop.call_later(LAST_SECONDS, self._give_up, each)
        while self._asked:
            await asyncio.sleep(0.005)

    def _put(self, waiting: _Waiting) -> None:
        """Let an item wait for the next transaction; the first one asks the writer for it."""
        if waiting.answer.done():  # its client has gone
            return
        with self._lock:
            batch = waiting.batch = self._next
            batch.waiting.append(waiting)
        if batch.job is None:
            loop = asyncio.get_running_loop()
            try:
                batch.job = self._log.put(partial(self._work, batch))
            except StoreError as error:  # it is closed, or not as it was written
                batch.waiting.clear()
                waiting.answer.set_exception(error)
                return
            batch.job.future.add_done_callback(
                lambda done: loop.call_soon_threadsafe(self._answer, batch, done)
            )

    def _work(self, batch: _Batch, t: Transaction) -> Sequence[Any]:
        """Call for what waits by now, in the writer's thread; again if the database says so."""
        with self._lock:
            if self._next is batch:
                self._next = _Batch()
        batch.waiting = [each for each in batch.waiting if not each.answer.done()]
        return self._call(t, [each.item for each in batch.waiting])

    def _answer(self, batch: _Batch, done: Any) -> None:
        """Answer what can be answered, and try the rest again."""
        with self._lock:
            if self._next is batch:  # the store has failed before it began
                self._next = _Batch()
        error = done.exception()
        results = done.result() if error is None else [error] * len(batch.waiting)
        for waiting, result in zip(batch.waiting, results, strict=True):
            if waiting.answer.done():
                continue
            if isinstance(result, StoreError) and not isinstance(result, TamperedError):
                waiting.error, waiting.batch = result, None
                asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._put, waiting)
            elif isinstance(result, BaseException):
                waiting.answer.set_exception(result)
            else:
                waiting.answer.set_result(result)

    def _give_up(self, waiting: _Waiting) -> None:
        """Its time is over: it leaves what has not begun, or gives up the transaction."""
        batch, others = waiting.batch, list[_Waiting]()
        if waiting.answer.done():
            return
        if batch is not None:
            with self._lock:
                if has_begun := batch is not self._next:
                    others = [each for each in batch.waiting if each is not waiting]
                else:
                    batch.waiting.remove(waiting)
            if not self._log.give_up(batch.job if has_begun else None):
                return  # its answer is on its way
        waiting.answer.set_exception(waiting.error)
        for each in others:
            self._put(each)
