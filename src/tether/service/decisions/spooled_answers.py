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
        loop = asyncio.get_running_loop()
        loop.call_later(self._within, _answer, open_ones)
        self._waiting += open_ones
        if not self._is_writing:
            self._is_writing = True
            loop.call_soon(self._write, loop)

    async def close(self) -> None:
        """Wait until everything is kept."""
        while self._is_writing:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(self._thread.shutdown)

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
        if error is not None and not self._is_failing:
            known = isinstance(error, StoreError)
            log.error(
                "answers without the store are not kept either: %s",
                error if known else type(error).__name__,
                exc_info=None if known else error,
            )
        self._is_failing = error is not None
        _answer(requests)
        self._is_writing = bool(self._waiting)
        if self._is_writing:
            self._write(loop)


def _answer(requests: list[Waiting]) -> None:
    for keys, answer in requests:
        if not answer.done():
            answer.set_result([None] * len(keys))
