"""Answers without the store: each waits a moment for the disk that keeps it, and no longer.

Answers that are given while the disk is busy are written together. If the disk fails too, they are
given all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tether.rounds.errors import StoreError

Decisions = list[str | None]
Waiting = tuple[Sequence[bytes], asyncio.Future[Decisions]]
"""The keys of a request, and the answer that it waits for."""

MAX_REQUESTS_UNKEPT = 10_000
"""How many requests may wait for the disk; beyond them answers are given and not kept."""
CLOSING_SECONDS = 2.0
"""How long the end of a service waits for the disk."""

log = logging.getLogger("tether.service")


class SpooledAnswers:
    """Gives answers without the store, which `append` keeps; for one event loop."""

    def __init__(self, append: Callable[[Sequence[bytes]], None] | None, *, within: float) -> None:
        self._append, self._within = append, within
        self._thread = ThreadPoolExecutor(1, "tether-spool")
        self._waiting: list[Waiting] = []
        self._is_writing = False
        self._is_failing = False

    def give(self, requests: list[Waiting]) -> None:
        """Answer requests once they are kept, or soon."""
        open_ones = [each for each in requests if not each[1].done()]
        if self._append is None:
            _answer(open_ones)
            return
        if not open_ones:
            return
        if len(self._waiting) > MAX_REQUESTS_UNKEPT:
            self._note_failure("the disk is too slow")
            _answer(open_ones)
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self._within, _answer, open_ones)
        self._waiting += open_ones
        if not self._is_writing:
            self._is_writing = True
            loop.call_soon(self._write, loop)

    async def close(self) -> None:
        """Wait until everything is kept, but not for a disk that hangs."""
        end = asyncio.get_running_loop().time() + CLOSING_SECONDS
        while self._is_writing and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.001)
        self._thread.shutdown(wait=not self._is_writing, cancel_futures=True)

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._append is not None
        requests, self._waiting = self._waiting, []
        keys = [key for each, _ in requests for key in each]
        done = self._thread.submit(self._append, keys)
        done.add_done_callback(
            lambda finished: loop.call_soon_threadsafe(self._finish, loop, requests, finished)
        )

    def _finish(
        self, loop: asyncio.AbstractEventLoop, requests: list[Waiting], finished: Future[None]
    ) -> None:
        error = finished.exception()
        if error is None:
            self._is_failing = False
        elif isinstance(error, StoreError):
            self._note_failure(str(error))
        else:
            self._note_failure(type(error).__name__, error)
        _answer(requests)
        self._is_writing = bool(self._waiting)
        if self._is_writing:
            self._write(loop)

    def _note_failure(self, message: str, error: BaseException | None = None) -> None:
        if not self._is_failing:
            log.error("answers without the store are not kept either: %s", message, exc_info=error)
        self._is_failing = True


def _answer(requests: list[Waiting]) -> None:
    for keys, answer in requests:
        if not answer.done():
            answer.set_result([None] * len(keys))
