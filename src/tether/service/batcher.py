"""Requests that wait are answered together, each within its own time.

One call has what has come while the calls before it were made. A call gets as much time as the item
in it that may wait for the shortest. Items that a store has not taken are tried again with the next
call, until their own time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tether.runs.errors import StoreError
from tether.service.api import ApiError

LEAST_SECONDS = 0.005
"""The least time that a call gets."""
PAUSE_SECONDS = 0.02
"""How long a store that has refused a call is left alone."""


class _Waiting(NamedTuple):
    item: Any
    until: float
    answer: asyncio.Future[Any]


class Batcher:
    """Calls a function with what many requests ask for; for one event loop.

    `call(items, seconds)` runs in a thread and returns an answer for each item, or an exception for
    one that failed alone. Up to `at_once` calls run at once, each with at most `most` items.
    """

    def __init__(
        self,
        call: Callable[[list[Any], float], Sequence[Any]],
        *,
        at_once: int = 1,
        most: int = 500,
        most_waiting: int = 20_000,
        name: str,
    ) -> None:
        self._call, self._at_once, self._most = call, at_once, most
        self._most_waiting = most_waiting
        self._threads = ThreadPoolExecutor(at_once, name)
        self._waiting: asyncio.Queue[_Waiting | None] = asyncio.Queue()
        self._workers: list[asyncio.Task[None]] = []
        self._ends_at = float("inf")

    async def ask(self, item: Any, within: float) -> Any:
        """The answer to one item; a `StoreError` if there was none in time."""
        if self._ends_at < float("inf"):
            raise ApiError(503, "the service is shutting down")
        if self._waiting.qsize() >= self._most_waiting:
            raise ApiError(503, "too many requests wait: repeat this one")
        loop = asyncio.get_running_loop()
        if not self._workers:
            self._workers = [loop.create_task(self._work()) for _ in range(self._at_once)]
        waiting = _Waiting(item, loop.time() + within, loop.create_future())
        self._waiting.put_nowait(waiting)
        return await waiting.answer

    async def close(self, within: float = 5.0) -> None:
        """Let what waits end within a time, and refuse the rest."""
        self._ends_at = asyncio.get_running_loop().time() + within
        for _ in self._workers:
            self._waiting.put_nowait(None)
        await asyncio.gather(*self._workers)
        self._threads.shutdown(wait=False)

    async def _work(self) -> None:
        """Make calls, one after the other, until a None ends it."""
        batch: list[_Waiting | None] = []
        while None not in batch or len(batch) > 1:
            if not batch:
                batch = [await self._waiting.get()]
                await asyncio.sleep(0)  # requests that have arrived already join it
            while len(batch) < self._most and batch[-1] is not None and self._waiting.qsize():
                batch.append(self._waiting.get_nowait())
            asked = [each for each in batch if each is not None and not each.answer.done()]
            again = await self._answer(asked) if asked else []
            if again:
                await asyncio.sleep(PAUSE_SECONDS)
            batch = [*again, *batch[-1:]] if None in batch else [*again]

    async def _answer(self, batch: list[_Waiting]) -> list[_Waiting]:
        """Answer what can be answered, and return what is to be tried again."""
        loop, again = asyncio.get_running_loop(), []
        left = min(*(each.until for each in batch), self._ends_at) - loop.time()
        items, seconds = [each.item for each in batch], max(LEAST_SECONDS, left)
        try:
            results = await loop.run_in_executor(self._threads, self._call, items, seconds)
        except Exception as error:
            results = [error] * len(batch)
        for each, result in zip(batch, results, strict=True):
            left = min(each.until, self._ends_at) - loop.time()
            if each.answer.done():  # its client has gone
                continue
            if not isinstance(result, Exception):
                each.answer.set_result(result)
            elif isinstance(result, StoreError) and left > LEAST_SECONDS:
                again.append(each)
            else:
                each.answer.set_exception(result)
        return again


def calls_in_threads(at_once: int, most_waiting: int, name: str) -> Batcher:
    """A batcher whose items are calls, each made by itself."""

    def make(calls: list[Callable[[], Any]], seconds: float) -> list[Any]:
        return [call() for call in calls]

    return Batcher(make, at_once=at_once, most=1, most_waiting=most_waiting, name=name)
