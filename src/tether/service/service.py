"""A service that runs: what is served, what waits for it, what is measured and who may ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from tether.rounds.errors import ClosedError, StoreError
from tether.rounds.releases.assigning import MadeRows
from tether.rounds.releases.served_release import ServedRelease
from tether.rounds.releases.unstored_answers import UnstoredAnswers
from tether.rounds.served_run import ServedRun
from tether.service.api_errors import ApiError
from tether.service.decisions.decision_batches import DecisionBatches
from tether.service.decisions.spooled_answers import Decisions
from tether.service.open_served import open_served
from tether.service.operating.follower import Follower
from tether.service.operating.service_metrics import ServiceMetrics
from tether.service.operating.webhooks import Webhooks
from tether.service.outage import Outage, outage_of
from tether.service.served import Served, ServedState
from tether.service.settings.service_settings import ServiceSettings

CALLS_AT_ONCE, CALLS_WAITING = 8, 200
"""How many calls other than decisions use the store at once, and how many more may wait."""
ACTS_AT_ONCE = 4
"""How many acts of people use it beside them: a halt does not wait for outcomes."""

Result = TypeVar("Result")

log = logging.getLogger("tether.service")


class Service:
    """Opens what a service serves; `close` ends everything that was begun."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings, self.metrics = settings, ServiceMetrics()
        limits = settings.limits
        self.served: Served = open_served(settings)
        self._webhooks = Webhooks(settings.webhooks, settings.title, self.metrics.webhook)
        self.follower = Follower(self.served, self._notice)
        self.made_rows: MadeRows | None = None
        self._batches: DecisionBatches | None = None
        if isinstance(self.served, ServedRelease):
            unstored = self.served.unstored
            self._batches = DecisionBatches(
                self._assign,
                answer_within=limits.answer_within,
                keep=None if unstored is None else unstored.append,
            )
        self.takes_rows = True  # whether the last actions were stored
        self.closing: list[Callable[[], Awaitable[None]]] = []
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, "tether-calls")
        self._acting = ThreadPoolExecutor(ACTS_AT_ONCE, "tether-acts")
        self._calls = self._listed = 0
        self.is_ready = False

    def start(self) -> None:
        """Begin to follow the store."""
        self._webhooks.start()
        self.follower.start()
        self.is_ready = True

    async def close(self) -> None:
        """Let calls end that are under way, and close the store."""
        self.is_ready = False
        await asyncio.to_thread(self.follower.stop)
        await asyncio.to_thread(self._webhooks.stop)
        if self._batches is not None:
            await self._batches.close()
            with suppress(StoreError):  # it is in the spool until the next start
                await asyncio.to_thread(self.release.list_unstored)
        for close in self.closing:
            await close()
        for threads in (self._threads, self._acting):
            await asyncio.to_thread(threads.shutdown)
        self.served.close()

    @property
    def release(self) -> ServedRelease:
        """The release, where one is served."""
        assert isinstance(self.served, ServedRelease)
        return self.served

    @property
    def run(self) -> ServedRun:
        """The run, where one is served."""
        assert isinstance(self.served, ServedRun)
        return self.served

    @property
    def is_store_available(self) -> bool:
        """Whether the store could be read a moment ago, and took the last decisions."""
        is_lost = self._batches is not None and self._batches.is_lost
        return self.follower.is_available and self.takes_rows and not is_lost

    @property
    def outage(self) -> Outage | None:
        """What to say while the store is unavailable; None while it is available."""
        if self.is_store_available:
            return None
        return outage_of(self.follower.state, self.served.settings)

    @property
    def unstored(self) -> UnstoredAnswers | None:
        """The answers of a release without the store; None where nothing is kept of them."""
        return self.served.unstored if isinstance(self.served, ServedRelease) else None

    def note_availability(self) -> None:
        """Let the metrics show how the store does."""
        self.metrics.available(self.is_store_available)
        if (unstored := self.unstored) is not None:
            self.metrics.unstored(unstored.waiting, unstored.delivered)

    def _notice(self, state: ServedState | None) -> None:
        """Take what holds now; None if the store is silent."""
        unstored = self.unstored
        if unstored is not None and unstored.delivered > self._listed:
            fields = {"answers": unstored.delivered - self._listed}
            log.info("answers without the store are listed in it", extra={"fields": fields})
            self._listed = unstored.delivered
            assert self._batches is not None
            self._batches.note_recovery()
        self.metrics.state(state, is_served=self.is_store_available)
        self.note_availability()
        self._webhooks.noticed(state)

    async def decide(self, keys: Sequence[bytes]) -> Decisions:
        """The system of each key; None where the old one answers without the store."""
        assert self._batches is not None  # decisions are those of a release
        systems = await self._batches.decide(keys)
        self.metrics.decisions(systems)
        return systems

    async def settle(self, keys: Sequence[bytes]) -> None:
        """Wait for decisions of keys that were answered without the store, but may be stored."""
        assert self._batches is not None
        await self._batches.settle(keys, self.settings.limits.store_deadline)

    def _assign(self, keys: Sequence[bytes], is_wanted: Callable[[], bool]) -> Decisions:
        """The systems of keys; `made_rows`, if anyone has set it, is told of new rows."""
        return self.release.assign_stored(keys, self.made_rows, is_wanted)

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
