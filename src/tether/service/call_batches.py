"""Requests that wait are answered together: one call has what has come while others were made."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from tether.service.api_errors import ApiError

MAX_REQUESTS_PER_CALL = 64
"""How many requests share a call."""
MAX_REQUESTS_WAITING = 2_000
"""How many requests may wait for a call; more are refused."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class CallBatches(Generic[Item, Answer]):
    """Calls a function with what many requests ask for; for one event loop.

    `call` gets the items of many requests in a thread, and returns an answer for each, or an
    exception for one that failed alone. Up to `at_once` calls are made at once.
    """

    def __init__(
        self,
        call: Callable[[Sequence[Item]], Sequence[Answer | Exception]],
        *,
        at_once: int,
        name: str,
    ) -> None:
        self._call, self._at_once = call, at_once
        self._threads = ThreadPoolExecutor(at_once, name)
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._calls = 0
        self._is_scheduled = False

    async def ask(self, item: Item) -> Answer:
        """The answer to one request."""
        if len(self._waiting) >= MAX_REQUESTS_WAITING:
            raise ApiError(503, "too many requests wait: repeat this one")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((item, answer))
        if not self._is_scheduled and self._calls < self._at_once:
            self._is_scheduled = True
            loop.call_soon(self._send, loop)  # after the requests that have arrived already
        return await answer

    async def close(self) -> None:
        """Refuse what waits, and wait for calls that are under way."""
        while self._waiting:
            _, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(ApiError(503, "the service is shutting down"))
        await asyncio.to_thread(self._threads.shutdown)

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        while self._waiting and self._calls < self._at_once:
            count = min(MAX_REQUESTS_PER_CALL, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
            batch = [each for each in batch if not each[1].done()]  # clients that have gone
            if batch:
                self._calls += 1
                done = self._threads.submit(self._call, [item for item, _ in batch])
                done.add_done_callback(
                    lambda finished, batch=batch: loop.call_soon_threadsafe(  # type: ignore[misc]
                        self._finish, loop, [answer for _, answer in batch], finished
                    )
                )

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        answers: list[asyncio.Future[Answer]],
        finished: Future[Sequence[Answer | Exception]],
    ) -> None:
        self._calls -= 1
        error = finished.exception()
        results = [error] * len(answers) if error is not None else finished.result()
        for answer, result in zip(answers, results, strict=True):
            if answer.done():
                continue
            if isinstance(result, BaseException):
                answer.set_exception(result)
            else:
                answer.set_result(result)
        self._send(loop)
