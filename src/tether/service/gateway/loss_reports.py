"""Losses that the gateway reports by itself: in the background, and again until they are stored.

A loss that never arrives counts as the bound, so nothing may be dropped lightly. While the store is
away the losses wait in memory; beyond a limit, and at the end of the process, they are given up,
counted and logged. That can only make the system look worse than it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from tether.rounds.errors import StoreError
from tether.service.gateway.gateway_metrics import GatewayMetrics

REPORTS_PER_CALL, MAX_REPORTS_WAITING = 500, 200_000
"""How many units are stored at once, and how many may wait."""
REPORTS_COLLECTED_FOR = 1.0
"""Seconds that reports are collected for: each call takes the store's lock from decisions."""
FIRST_REPORT_PAUSE, LONGEST_REPORT_PAUSE = 0.25, 5.0
"""Seconds between two tries while the store is away; each pause is twice the one before."""
LAST_REPORTS_WITHIN = 10.0
"""Seconds at most that are taken at the end to store what still waits, if the store answers."""


class LossReport(NamedTuple):
    """The losses of one unit, by guardrail."""

    key: bytes
    system: str
    losses: Mapping[str, float]


Observe = Callable[[list[LossReport]], None]
"""Stores losses of different keys, all or none."""


class LossReports:
    """Collects reports and stores them, for one event loop: `start` it, and `close` it."""

    def __init__(
        self, observe: Observe, metrics: GatewayMetrics, most: int = MAX_REPORTS_WAITING
    ) -> None:
        self._observe, self._metrics, self._most = observe, metrics, most
        self._waiting: deque[LossReport] = deque()
        self._thread = ThreadPoolExecutor(1, "tether-reports")
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def start(self) -> None:
        """Begin to store what arrives."""
        self._task = asyncio.get_running_loop().create_task(self._store_all())

    def add(self, report: LossReport) -> None:
        """Take a report; it waits for nothing."""
        if len(self._waiting) >= self._most:
            self._metrics.dropped(1, "too many wait for the store")
            return
        self._waiting.append(report)
        self._metrics.reports_waiting.set(len(self._waiting))
        self._arrived.set()

    async def close(self) -> None:
        """Store what waits, within a time, and give up the rest."""
        self._closing.set()
        self._arrived.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=LAST_REPORTS_WITHIN)
            self._task.cancel()
            with suppress(StoreError, asyncio.CancelledError):
                await self._task
        await asyncio.to_thread(self._thread.shutdown)
        if self._waiting:
            self._metrics.dropped(
                len(self._waiting), "the service ends, and the store is unavailable"
            )

    async def _store_all(self) -> None:
        while True:
            await self._arrived.wait()
            await self._pause(REPORTS_COLLECTED_FOR)
            self._arrived.clear()
            while self._waiting:
                some = self._next()
                await self._store(some)
                for _ in some:
                    self._waiting.popleft()
                self._metrics.reports_waiting.set(len(self._waiting))
            if self._closing.is_set():
                return

    def _next(self) -> list[LossReport]:
        """The oldest reports, up to the second one of a key."""
        some: dict[bytes, LossReport] = {}
        for each in self._waiting:
            if each.key in some or len(some) == REPORTS_PER_CALL:
                break
            some[each.key] = each
        return list(some.values())

    async def _store(self, some: list[LossReport]) -> None:
        """Store reports, however long the store is away; those that it refuses are given up."""
        pause = FIRST_REPORT_PAUSE
        while True:
            try:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._thread, self._observe, some)
                return
            except StoreError:
                if self._closing.is_set():
                    raise
                await self._pause(pause)
                pause = min(2 * pause, LONGEST_REPORT_PAUSE)
            except Exception as error:  # it is all or none: find the one that is refused
                if len(some) == 1:
                    self._metrics.dropped(1, type(error).__name__)
                    return
                for each in some:
                    await self._store([each])
                return

    async def _pause(self, seconds: float) -> None:
        """Wait, unless it is closed meanwhile."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)
