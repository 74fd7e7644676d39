"""Requests that wait are answered together, each within its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tether.runs.errors import StoreError, TamperedError
from tether.service.api import ApiError

LEAST_SECONDS = 0.005
"""The least time that a call gets."""
PAUSE_SECONDS = 0.02
"""How long a store that has refused a call is left alone."""
MOST_ITEMS = 500
"""How many items a call has at most."""


class _Waiting(NamedTuple):
    item: Any
    until: float
    answer: asyncio.Future[Any]


class Batcher:
    """Calls a function with what many requests ask for; for one event loop.

    `call(items, seconds)` runs in a thread and returns an answer for each item, or an exception for
    one that failed alone. One call has what has come while the call before it was made, and as much
    time as the item in it that may wait for the shortest. Items that a store has not taken are
    tried again with the next call, until their own time is over.
    """

    def __init__(self, call: Callable[[list[Any], float], Sequence[Any]], name: str) -> None:
        self._call, self._thread = call, ThreadPoolExecutor(1, name)
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._working: asyncio.Task[None] | None = None
        self._asking, self._ends_at = 0, float("inf")

    async def ask(self, item: Any, within: float) -> Any:
        """The answer to one item; a `StoreError` if there was none in time."""
        if self._ends_at < float("inf"):
            raise ApiError(503, "the service is shutting down")
        loop = asyncio.get_running_loop()
        if self._working is None:
            self._working = loop.create_task(self._work())
        waiting = _Waiting(item, loop.time() + within, loop.create_future())
        self._waiting.put_nowait(waiting)
        self._asking += 1
        try:
            return await waiting.answer
        finally:
            self._asking -= 1

    async def close(self, within: float = 5.0) -> None:
        """Let what waits end within a time, and refuse the rest."""
        self._ends_at = asyncio.get_running_loop().time() + within
        while self._asking:
            await asyncio.sleep(LEAST_SECONDS)
        if self._working is not None:
            self._working.cancel()
        self._thread.shutdown(wait=False)

    async def _work(self) -> None:
        """Make calls, one after the other."""
        batch: list[_Waiting] = []
        while True:
            if not batch:
                batch = [await self._waiting.get()]
                await asyncio.sleep(0)  # requests that have arrived already join it
            while self._waiting.qsize() and len(batch) < MOST_ITEMS:
                batch.append(self._waiting.get_nowait())
            batch = [each for each in batch if not each.answer.done()]  # clients that have gone
            if batch and (batch := await self._answer(batch)):
                await asyncio.sleep(PAUSE_SECONDS)

    async def _answer(self, batch: list[_Waiting]) -> list[_Waiting]:
        """Answer what can be answered, and return what is to be tried again."""
        loop, again = asyncio.get_running_loop(), []
        left = min(self._ends_at, *(each.until for each in batch)) - loop.time()
        items, seconds = [each.item for each in batch], max(LEAST_SECONDS, left)
        try:
            results = await loop.run_in_executor(self._thread, self._call, items, seconds)
        except Exception as error:
            results = [error] * len(batch)
        for each, result in zip(batch, results, strict=True):
            left = min(self._ends_at, each.until) - loop.time()
            if each.answer.done():
                continue
            if not isinstance(result, Exception):
                each.answer.set_result(result)
            elif (
                isinstance(result, StoreError)
                and not isinstance(result, TamperedError)
                and left > LEAST_SECONDS
            ):
                again.append(each)
            else:
                each.answer.set_exception(result)
        return again
