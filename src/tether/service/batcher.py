"""Requests that wait are answered together, each within its own time.

One call has what has come while the calls before it were made. A call gets as much time as the item
in it that may wait for the shortest. Items that a store has not taken are tried again with the next
call, until their own time is over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tether.runs.errors import StoreError
from tether.service.api import ApiError

LEAST_SECONDS = 0.005
"""The least time that a call gets."""
PAUSE_SECONDS = 0.02
"""How long a store that has refused a call is left alone."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(eq=False, slots=True)
class _Waiting(Generic[Item, Answer]):
    item: Item
    until: float
    answer: asyncio.Future[Answer]


class Batcher(Generic[Item, Answer]):
    """Calls a function with what many requests ask for; for one event loop.

    `call(items, seconds)` runs in a thread and returns an answer for each item, or an exception for
    one that failed alone. Up to `at_once` calls run at once, each with at most `most` items.
    """

    def __init__(
        self,
        call: Callable[[list[Item], float], Sequence[Answer | Exception]],
        *,
        at_once: int = 1,
        most: int = 500,
        most_waiting: int = 20_000,
        name: str = "tether-calls",
    ) -> None:
        self._call, self._at_once = call, at_once
        self._most, self._most_waiting = most, most_waiting
        self._threads = ThreadPoolExecutor(at_once, name)
        self._waiting: deque[_Waiting[Item, Answer]] = deque()
        self._calls, self._is_scheduled, self._is_closed = 0, False, False

    def __len__(self) -> int:
        """How many items wait."""
        return len(self._waiting)

    async def ask(self, item: Item, within: float) -> Answer:
        """The answer to one item; a `StoreError` if there was none in time."""
        if self._is_closed:
            raise ApiError(503, "the service is shutting down")
        if len(self._waiting) >= self._most_waiting:
            raise ApiError(503, "too many requests wait: repeat this one")
        loop = asyncio.get_running_loop()
        waiting: _Waiting[Item, Answer] = _Waiting(item, loop.time() + within, loop.create_future())
        self._waiting.append(waiting)
        self._schedule(loop)
        return await waiting.answer

    async def close(self, within: float = 5.0) -> None:
        """Let what waits end within a time, and refuse the rest."""
        self._is_closed = True
        until = asyncio.get_running_loop().time() + within
        for each in self._waiting:
            each.until = min(each.until, until)
        while self._waiting or self._calls:
            await asyncio.sleep(LEAST_SECONDS)
        self._threads.shutdown(wait=False)

    def _schedule(self, loop: asyncio.AbstractEventLoop, pause: float = 0.0) -> None:
        if self._is_scheduled or self._calls >= self._at_once or not self._waiting:
            return
        self._is_scheduled = True
        if pause:
            loop.call_later(pause, self._send, loop)
        else:
            loop.call_soon(self._send, loop)  # after the requests that have arrived already

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        while self._waiting and self._calls < self._at_once:
            count = min(self._most, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
            batch = [each for each in batch if not each.answer.done()]  # clients that have gone
            if not batch:
                continue
            self._calls += 1
            seconds = max(LEAST_SECONDS, min(each.until for each in batch) - loop.time())
            done = self._threads.submit(self._call, [each.item for each in batch], seconds)
            done.add_done_callback(
                lambda finished, batch=batch: loop.call_soon_threadsafe(  # type: ignore[misc]
                    self._finish, loop, batch, finished
                )
            )

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: list[_Waiting[Item, Answer]],
        finished: Future[Sequence[Answer | Exception]],
    ) -> None:
        self._calls -= 1
        error, again = finished.exception(), []
        results = [error] * len(batch) if error is not None else finished.result()
        for each, result in zip(batch, results, strict=True):
            if each.answer.done():
                continue
            if not isinstance(result, BaseException):
                each.answer.set_result(result)
            elif isinstance(result, StoreError) and each.until - loop.time() > LEAST_SECONDS:
                again.append(each)
            else:
                each.answer.set_exception(result)
        self._waiting.extendleft(reversed(again))
        self._schedule(loop, PAUSE_SECONDS if again else 0.0)


def calls_in_threads(at_once: int, most_waiting: int, name: str) -> Batcher[Callable[[], Any], Any]:
    """A batcher whose items are calls, each made by itself."""

    def make(calls: list[Callable[[], Any]], seconds: float) -> list[Any]:
        return [call() for call in calls]

    return Batcher(make, at_once=at_once, most=1, most_waiting=most_waiting, name=name)
