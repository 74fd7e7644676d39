"""What a service stands in front of: a release or a run, what holds of it now, and its verdict.

Everything that uses the store of a release goes through one batcher: outcomes first, then what
begins steps, then decisions, all in one transaction. So what is known of a step is stored before
the step can end, above all what the gateway reports by itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tether.runs import Alarm, Guardrail, Release, Run
from tether.runs.decide_share import is_over, used_rows
from tether.runs.errors import StoreError
from tether.runs.event_log import Transaction
from tether.runs.history import Estimate, estimate, moment
from tether.runs.release import SYSTEMS
from tether.runs.settings import Settings
from tether.runs.state import MICROSECONDS, OLD, State
from tether.service.api import ApiError
from tether.service.batcher import Batcher

FOLLOW_SECONDS = 0.5
"""How often the store is looked at, beside all requests."""
MEASURE_SHARE = 0.02
"""At most this part of the time goes into means and intervals."""
CALLS_AT_ONCE, CALLS_WAITING = 4, 200
"""How many other calls use the store at once, and how many more may wait."""

Result = TypeVar("Result")
log = logging.getLogger("tether.service")


@dataclass(frozen=True)
class Measured:
    """One loss since the present ramp or round began: of each system, and how many are unknown."""

    limit: Guardrail
    old: Estimate
    new: Estimate
    missing: dict[str, int]

    @property
    def exceeds(self) -> str:
        """What is shown, in words, if the new system's own mean exceeds what is tolerated."""
        tolerated = self.limit.tolerated
        if tolerated is None:
            tolerated = self.limit.delta + (1 + self.limit.ratio) * self.old.upper
        if not self.new.count or not self.new.lower > tolerated:
            return ""
        beside = f"; the old one {self.old.mean:.4g}" if self.old.count else ""
        return (
            f"the new system's mean of {self.new.mean:.4g} on {self.new.count} rows is shown to "
            f"exceed {tolerated:.4g}{beside}"
        )


@dataclass(frozen=True)
class Present:
    """What holds now. `level` is the share, or the log beta of a round, which has no share."""

    unit: str
    number: int
    begun: str
    level: float
    share: float | None
    rows: int
    note: str
    policy: str | None
    alarm: Alarm | None
    promises: dict[str, float]
    seq: int
    measured: dict[str, Measured]

    @property
    def failures(self) -> list[str]:
        """Why another tool must not go on: an alarm, or a mean that is shown to exceed."""
        found = []
        if (alarm := self.alarm) is not None:
            found.append(f"alarm {alarm.number} stands ({alarm.monitor}): {alarm.message}")
        found += [f"{name}: {each.exceeds}" for name, each in self.measured.items() if each.exceeds]
        return found


def measure(state: State, settings: Settings) -> dict[str, Measured]:
    """The losses since the present ramp, or round, began."""
    last = state.last
    begin = 0 if last is None else state.units[max(last.ramp, 1) - 1].before
    if last is not None and not settings.decides_shares:
        begin = last.before
    kept = state.kept(slice(begin, state.rows.size))
    is_new = state.rows["arm"][kept] > OLD
    arms = {"old": kept[~is_new], "new": kept[is_new]}
    found = {}
    for name, limit in settings.limits.items():
        losses = {arm: state.loss(name)[rows] for arm, rows in arms.items()}
        known = {arm: each[~np.isnan(each)] for arm, each in losses.items()}
        missing = {arm: len(losses[arm]) - len(known[arm]) for arm in arms}
        old, new = (estimate(known[arm], limit.bound) for arm in ("old", "new"))
        found[name] = Measured(limit, old, new, missing)
    return found


class Served:
    """A run that is served below a path: what holds now, and calls that use its store.

    `noticed(served, present)` is told whenever the store was looked at; None if it was silent.
    """

    unit = "round"

    def __init__(self, prefix: str, title: str, run: Run, deadline: float) -> None:
        self.prefix = f"/{prefix}" if prefix else ""
        self.title, self.run, self.deadline = title, run, deadline
        self.present: Present | None = None
        self.is_available, self.takes_rows, self.answered = False, True, 0
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, "tether-calls")
        self._calls, self._measured_at = 0, 0.0
        self._measured: tuple[int, dict[str, Measured]] = (-1, {})
        self._task: asyncio.Task[None] | None = None

    async def start(self, noticed: Callable[[Served, Present | None], None]) -> None:
        """Look at the store once, and go on to follow it."""
        self._noticed = noticed
        await self.look()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Let calls end that are under way, and close the store."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self.run.close)

    @property
    def is_serving(self) -> bool:
        """Whether the store could be read a moment ago, and took the last rows."""
        return self.is_available and self.takes_rows

    async def look(self) -> None:
        """Begin what is due, and see what holds now."""
        before = self.present
        try:
            self.present = await self._look()
        except StoreError as error:
            if self.is_available or before is None:
                log.error("the store is unavailable: %s", error, extra=self._fields())
            self.is_available = False
            self._noticed(self, None)
            return
        if not self.is_available:
            log.info("the store is available", extra=self._fields())
        self.is_available = True
        self._noticed(self, self.present)

    async def call(self, function: Callable[[], Result]) -> Result:
        """What a function returns that uses the store, in a thread."""
        if self._calls >= CALLS_AT_ONCE + CALLS_WAITING:
            raise ApiError(503, "too many requests wait for the store: repeat this one")
        self._calls += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function)
        except StoreError as error:
            raise unavailable(error) from error
        finally:
            self._calls -= 1

    async def _look(self) -> Present:
        raise NotImplementedError

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                await self.look()
            except Exception:  # it must go on
                self.is_available = False
                log.exception("following the store failed", extra=self._fields())

    def _read(self, t: Transaction) -> Present:
        """What holds, inside a transaction; means only now and then, since they take long."""
        state: State = t.state
        settings, last = state.given, state.last
        seq, now = t.log.seq, time.monotonic()
        if seq != self._measured[0] and now >= self._measured_at:
            self._measured = seq, measure(state, settings)
            spent = time.monotonic() - now
            self._measured_at = now + spent + max(FOLLOW_SECONDS, spent / MEASURE_SHARE)
        alarm = None if state.standing is None else state.alarms[state.standing - 1]
        decision = {} if last is None else last.decision
        return Present(
            unit=self.unit,
            number=len(state.units),
            begun="" if last is None else moment(last.begun),
            level=0.0 if last is None else last.level,
            share=float(state.share) if settings.decides_shares else None,
            rows=0 if last is None else state.rows.size - last.before,
            note=str(decision.get("reason", "")),
            policy=None if last is None else last.policy,
            alarm=alarm,
            promises=self._promises(state),
            seq=seq,
            measured=self._measured[1],
        )

    def _promises(self, state: State) -> dict[str, float]:
        decision = {} if state.last is None else state.last.decision
        return {} if state.is_stopped else dict(decision.get("promises", {}))

    def _fields(self) -> dict[str, Any]:
        return {"fields": {"name": self.title}}


def unavailable(error: StoreError) -> ApiError:
    """What a client is told whose call the store has not taken."""
    log.error("a call failed: %s", error)
    return ApiError(503, "the store is unavailable: repeat the request")


class Assign(NamedTuple):
    """Keys whose systems are asked for."""

    keys: list[bytes]


class Observe(NamedTuple):
    """Losses of keys under the systems that answered."""

    keys: list[bytes]
    losses: dict[str, list[float]]
    systems: list[str]
    keep_first: bool


class Do(NamedTuple):
    """Anything else, inside the transaction."""

    job: Callable[[Transaction], Any]


class Observed(NamedTuple):
    """How many losses were new, and how many outcomes had no row."""

    new: int
    without_row: int


class Decided(NamedTuple):
    """The system of a key, and whether this request is the first unit of its row."""

    system: str
    is_first: bool


class PatientRelease(Release):
    """A release whose steps wait for `reported` losses, for at most `patience` seconds a row.

    They are those that the gateway reports by itself: an answer under way, in any process, is no
    failure. To begin a step later is always allowed: which rows it rests on stays the same.
    """

    def __init__(
        self, store: str, *, reported: Iterable[str] = (), patience: float = 0.0, **options: Any
    ) -> None:
        self._reported, self._patience = reported, int(patience * MICROSECONDS)
        super().__init__(store, **options)

    def begin_if_due(self, t: Transaction) -> None:
        """Begin the next step, if the present one is over and none of its answers is under way."""
        last, state = t.state.last, t.state
        if last is None or state.cleared > last.cleared or state.tightened > last.event:
            super().begin_if_due(t)
        elif is_over(state, t.now):
            rows = state.kept(used_rows(state, last.number))
            young = rows[state.rows["at"][rows] > t.now - self._patience]
            if not any(np.isnan(state.loss(name)[young]).any() for name in self._reported):
                super().begin_if_due(t)


class ServedRelease(Served):
    """A release that is served, and everything that uses its store, in batches."""

    unit = "step"

    def __init__(
        self, prefix: str, title: str, release: Release, deadline: float, answer_within: float
    ) -> None:
        super().__init__(prefix, title, release, deadline)
        self.release, self._answer_within = release, answer_within
        self.batcher: Batcher[Assign | Observe | Do, Any] = Batcher(
            self._call, name="tether-release"
        )

    async def decide(self, keys: list[bytes]) -> list[Decided] | None:
        """The system of each key; None if the old one answers without the store."""
        self.answered += len(keys)
        try:
            found: list[Decided] = await self.batcher.ask(Assign(keys), self._answer_within)
        except StoreError as error:
            if self.takes_rows:
                log.error("decisions are not stored; the old system answers: %s", error)
            self.takes_rows = False
            return None
        if not self.takes_rows:
            log.info("decisions are stored again")
        self.takes_rows = True
        return found

    async def observe(self, observe: Observe, within: float | None = None) -> Observed:
        """Store losses."""
        return await self._ask(observe, within)  # type: ignore[no-any-return]

    async def do(self, job: Callable[[Transaction], Result]) -> Result:
        """Do something else after the losses that wait are stored."""
        return await self._ask(Do(job))  # type: ignore[no-any-return]

    async def _ask(self, item: Observe | Do, within: float | None = None) -> Any:
        try:
            return await self.batcher.ask(item, self.deadline if within is None else within)
        except StoreError as error:
            raise unavailable(error) from error

    async def close(self) -> None:
        """Store what waits, and close the store."""
        await self.batcher.close()
        await super().close()

    async def _look(self) -> Present:
        def job(t: Transaction) -> Present:
            self.release.begin_if_due(t)
            return self._read(t)

        found: Present = await self.batcher.ask(Do(job), self.deadline)
        return found

    def _promises(self, state: State) -> dict[str, float]:
        if state.share <= 0:  # the old system alone answers, at its own risk
            return {}
        limits = state.given.limits.items()
        return {name: each.tolerated for name, each in limits if each.tolerated is not None}

    def _call(self, items: list[Assign | Observe | Do], seconds: float) -> Sequence[Any]:
        """What comes of items, all of them in one transaction."""
        try:
            return self.release.submit(lambda t: self._job(t, items), seconds)
        except StoreError as error:
            return [error] * len(items)

    def _job(self, t: Transaction, items: list[Assign | Observe | Do]) -> Sequence[Any]:
        results: list[Any] = [None] * len(items)
        for place, item in enumerate(items):
            if isinstance(item, Observe):
                results[place] = self._observe(t, item)
        for place, item in enumerate(items):
            if isinstance(item, Do):
                try:
                    results[place] = item.job(t)
                except (ValueError, ApiError) as error:
                    results[place] = error
        asked = {place: item.keys for place, item in enumerate(items) if isinstance(item, Assign)}
        if asked:
            decided = self._assign(t, list(asked.values()))
            for place, mine in zip(asked, decided, strict=True):
                results[place] = mine
        return results

    def _assign(self, t: Transaction, asked: list[list[bytes]]) -> list[list[Decided]]:
        keys = list(dict.fromkeys(key for each in asked for key in each))
        arms, fresh = self.release.assign_in(t, keys)
        found = []
        for each in asked:
            mine = []
            for key in each:
                mine.append(Decided(SYSTEMS[arms[key]], key in fresh))
                fresh.discard(key)
            found.append(mine)
        return found

    def _observe(self, t: Transaction, item: Observe) -> Observed | Exception:
        """Store losses; outcomes of which the system has no row are passed over."""
        arms = np.array([SYSTEMS.index(system) for system in item.systems])
        columns = {name: np.array(values) for name, values in item.losses.items()}
        try:
            keep = {"keep_first": item.keep_first, "skip_unknown": True}
            return Observed(*self.release.observe_in(t, item.keys, arms, columns, **keep))
        except ValueError as error:
            return error


def check_losses(losses: Mapping[str, float], limits: Mapping[str, Guardrail]) -> None:
    """Refuse a loss that is no guardrail's, or outside its range."""
    for name, loss in losses.items():
        if name not in limits:
            raise ApiError(400, f"losses must be among {list(limits)}, got {name!r:.80}")
        if not 0 <= loss <= limits[name].bound:
            hint = ""
            if limits[name].bound == 1 < loss <= 100:
                hint = f": is it a percentage? {loss:g} % is {loss / 100:g}"
            raise ApiError(
                400,
                f"loss {name!r} must be from 0 to {limits[name].bound:g}, got {loss:g}{hint}",
            )
