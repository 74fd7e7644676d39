"""Requests that wait are answered together, in one transaction, each within its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

from tether.runs.errors import StoreError, TamperedError
from tether.runs.event_log import EventLog, Transaction
from tether.service.api import ApiError

PAUSE_SECONDS = 0.02
"""How long a store that has refused a transaction is left alone."""
LAST_SECONDS = 5.0
"""How long the end of a service waits for answers."""


@dataclass(eq=False)
class _Asked:
    item: Any
    answer: asyncio.Future[Any]
    error: Exception
    """What it is told if there is no answer in time."""


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
        self._log, self._call, self._lock = log, call, Lock()
        self._waiting: list[_Asked] = []
        self._taken: list[_Asked] = []  # by the transaction of the job
        self._job: Any = None
        self._is_closing = False

    async def ask(self, item: Any, within: float) -> Any:
        """The answer to one item; a `StoreError` if there was none in time."""
        if self._is_closing:
            raise ApiError(503, "the service is shutting down")
        loop = asyncio.get_running_loop()
        silence = StoreError(f"the store did not answer within {within:g} s")
        asked = _Asked(item, loop.create_future(), silence)
        with self._lock:
            self._waiting.append(asked)
        loop.call_soon(self._go_on)  # after what has arrived already
        timer = loop.call_later(within, self._give_up, asked)
        try:
            return await asked.answer
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Let what waits end within a time, and refuse the rest."""
        self._is_closing, loop = True, asyncio.get_running_loop()
        until = loop.time() + LAST_SECONDS
        while left := [each for each in self._taken + self._waiting if not each.answer.done()]:
            await asyncio.sleep(0.005)
            if loop.time() > until:
                self._give_up(left[0])

    def _go_on(self) -> None:
        """Begin the next transaction, if none is under way."""
        if self._job is not None or not self._waiting:
            return
        self._taken, loop = [], asyncio.get_running_loop()
        try:
            self._job = self._log.put(partial(self._work, self._taken))
        except StoreError as error:  # it is closed, or not as it was written
            refused, self._waiting = self._waiting, []
            for each in refused:
                if not each.answer.done():
                    each.answer.set_exception(error)
            return
        self._job.future.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._answer, done.exception(), done)
        )

    def _work(self, taken: list[_Asked], t: Transaction) -> Sequence[Any]:
        """Call for what waits by now, in the writer's thread; again if the database says so."""
        with self._lock:
            if taken is self._taken:  # it was not given up
                taken += [each for each in self._waiting if not each.answer.done()]
                self._waiting = []
        return self._call(t, [each.item for each in taken])

    def _answer(self, error: BaseException | None, done: Any) -> None:
        """Answer what the transaction has done; what the store has not taken waits on."""
        taken, self._taken, self._job = self._taken, [], None
        loop = asyncio.get_running_loop()
        if isinstance(error, StoreError) and not isinstance(error, TamperedError):
            self._waiting = taken + self._waiting
            for each in self._waiting:
                each.error = error
            loop.call_later(PAUSE_SECONDS, self._go_on)
            return
        self._go_on()
        for each, result in zip(
            taken, [error] * len(taken) if error else done.result(), strict=True
        ):
            if each.answer.done():
                continue
            if isinstance(result, BaseException):
                each.answer.set_exception(result)
            else:
                each.answer.set_result(result)

    def _give_up(self, asked: _Asked) -> None:
        """Its time is over: it leaves what waits, or gives up the transaction."""
        if asked.answer.done():
            return
        with self._lock:
            is_taken = asked in self._taken
            if not is_taken:
                self._waiting.remove(asked)
        if not self._log.give_up(self._job if is_taken else None):
            return  # its answer is on its way
        asked.answer.set_exception(asked.error)
        if is_taken:
            with self._lock:
                self._waiting = [each for each in self._taken if each is not asked] + self._waiting
                self._taken, self._job = [], None
            self._go_on()
