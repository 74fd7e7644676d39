"""A service that runs: the release, what waits for it, what is measured and who may ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from tether.rounds.errors import ClosedError, StoreError
from tether.rounds.releases.assigning import MadeRows
from tether.rounds.releases.served_release import ReleaseState, ServedRelease
from tether.service.api_errors import ApiError
from tether.service.decisions.decision_batches import DecisionBatches
from tether.service.decisions.spooled_answers import Decisions
from tether.service.operating.follower import Follower
from tether.service.operating.service_metrics import ServiceMetrics
from tether.service.operating.webhooks import Webhooks
from tether.service.settings.service_settings import ServiceSettings

CALLS_AT_ONCE, CALLS_WAITING = 8, 200
"""How many calls other than decisions use the store at once, and how many more may wait."""
ACTS_AT_ONCE = 4
"""How many acts of people use it beside them: a halt does not wait for outcomes."""

Result = TypeVar("Result")

log = logging.getLogger("tether.service")


def open_release(settings: ServiceSettings) -> ServedRelease:
    """Open the release of a service, which is created if there is none."""
    return ServedRelease(
        settings.store,
        **settings.release,
        deadline=settings.limits.store_deadline,
        spool=settings.spool,
    )


class Service:
    """Opens the release of a service; `close` ends everything that was begun."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings, self.metrics = settings, ServiceMetrics()
        limits = settings.limits
        self.release = open_release(settings)
        self._webhooks = Webhooks(settings.webhooks, settings.flag, self.metrics.webhook)
        self.follower = Follower(self.release, self._notice)
        self.made_rows: MadeRows | None = None
        unstored = self.release.unstored
        self._batches = DecisionBatches(
            self._assign,
            answer_within=limits.answer_within,
            keep=None if unstored is None else unstored.append,
        )
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, "tether-calls")
        self._acting = ThreadPoolExecutor(ACTS_AT_ONCE, "tether-acts")
        self._calls = self._listed = 0
        self.is_ready = False

    def start(self) -> None:
        """Begin to follow the release."""
        self._webhooks.start()
        self.follower.start()
        self.is_ready = True

    async def close(self) -> None:
        """Let calls end that are under way, and close the store."""
        self.is_ready = False
        await asyncio.to_thread(self.follower.stop)
        await asyncio.to_thread(self._webhooks.stop)
        await self._batches.close()
        with suppress(StoreError):  # it is in the spool until the next start
            await asyncio.to_thread(self.release.list_unstored)
        for threads in (self._threads, self._acting):
            await asyncio.to_thread(threads.shutdown)
        self.release.close()

    @property
    def is_store_available(self) -> bool:
        """Whether the store could be read a moment ago, and took the last decisions."""
        return self.follower.is_available and not self._batches.is_lost

    def note_availability(self) -> None:
        """Let the metrics show how the store does."""
        self.metrics.available(self.is_store_available)
        if (unstored := self.release.unstored) is not None:
            self.metrics.unstored(unstored.waiting, unstored.delivered)

    def _notice(self, state: ReleaseState | None) -> None:
        """Take what holds now; None if the store is silent."""
        unstored = self.release.unstored
        if unstored is not None and unstored.delivered > self._listed:
            self._listed = unstored.delivered
            self._batches.note_recovery()
        self.metrics.state(state)
        self.note_availability()
        self._webhooks.noticed(state)

    @property
    def unstored_waiting(self) -> int:
        """How many answers without the store wait to be listed in it."""
        unstored = self.release.unstored
        return 0 if unstored is None else unstored.waiting

    async def decide(self, keys: Sequence[bytes]) -> Decisions:
        """The system of each key; None where the old one answers without the store."""
        systems = await self._batches.decide(keys)
        self.metrics.decisions(systems)
        return systems

    def _assign(self, keys: Sequence[bytes]) -> Decisions:
        """The systems of keys; `made_rows`, if anyone has set it, is told of new rows."""
        return self.release.assign_stored(keys, self.made_rows)

    async def call(self, function: Callable[[], Result]) -> Result:
        """What a function returns that uses the store, in a thread."""
        if self._calls >= CALLS_AT_ONCE + CALLS_WAITING:
            raise ApiError(503, "too many requests wait for the store: repeat this one")
        self._calls += 1
        try:
            return await self._run(self._threads, function)
        finally:
            self._calls -= 1

    async def act(self, function: Callable[[], Result]) -> Result:
        """What a function returns that does what a person asked for, beside all other calls."""
        return await self._run(self._acting, function)

    async def _run(self, threads: ThreadPoolExecutor, function: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, function)
        except ClosedError:
            raise ApiError(503, "the service is shutting down") from None
        except StoreError as error:
            log.error("a call failed: %s", error)
            raise ApiError(503, "the store is unavailable: repeat the request") from error
