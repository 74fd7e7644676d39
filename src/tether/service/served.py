"""What a service stands in front of: a release or a run, what holds of it now, and its verdict.

Everything that uses the store of a release goes through one batcher: outcomes first, then what
begins steps, then decisions, all in one transaction. So what is known of a step is stored before
the step can end.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from tether._core.arrays import Floats
from tether._version import __version__
from tether.runs import Controller, Guardrail, Release
from tether.runs.actions import named_losses
from tether.runs.decide_share import is_over, used_rows
from tether.runs.errors import FinalLossError, StoreError
from tether.runs.event_log import Transaction
from tether.runs.history import estimate, moment
from tether.runs.release import SYSTEMS
from tether.runs.state import MICROSECONDS, OLD, State
from tether.service.api import ApiError
from tether.service.batcher import Batcher

FOLLOW_SECONDS = 0.5
"""How often the store is looked at, beside all requests."""
MEASURE_SHARE = 0.02
"""At most this part of the time goes into means and intervals."""
MOST_ITEMS = 1_000
"""How many keys, contexts or outcomes a request may have."""

Result = TypeVar("Result")
log = logging.getLogger("tether.service")


class SystemMean(Struct, frozen=True):
    """The mean loss of a system since the ramp or round began, with a 95 % interval."""

    outcomes: int
    missing: int
    mean: float | None
    lower: float
    upper: float


class LossStatus(Struct, frozen=True):
    """One guardrail or loss; `exceeds` says so where the new system's mean is shown to exceed."""

    tolerated: float | None
    delta: float
    ratio: float
    bound: float
    old: SystemMean
    new: SystemMean
    exceeds: str
    promise: float | None = None


class UnitStatus(Struct, frozen=True):
    """The present step or round; `level` is its share, or its log beta as text."""

    number: int = 0
    begun: str = ""
    level: float | str = 0.0
    rows: int = 0
    note: str = ""
    policy: str | None = None


class AlarmStatus(Struct, frozen=True):
    """The alarm that stands."""

    number: int
    unit: int
    monitor: str
    message: str
    raised: str


class Status(Struct, frozen=True):
    """What holds now; a round has no share."""

    name: str
    kind: str
    state: str
    verdict: Literal["pass", "fail", "unknown"]
    warnings: list[str]
    share: float | None
    step: UnitStatus
    alarm: AlarmStatus | None
    losses: dict[str, LossStatus]
    store_available: bool = True
    more: dict[str, Any] = {}
    version: str = __version__


def measure(state: State) -> dict[str, LossStatus]:
    """The losses since the present ramp, or round, began."""
    settings, last, begin = state.given, state.last, 0
    if last is not None:
        begin = last.before
        if settings.decides_shares:
            begin = state.units[max(last.ramp, 1) - 1].before
    kept = state.kept(slice(begin, state.rows.size))
    is_new = state.rows["arm"][kept] > OLD
    found = {}
    for name, limit in settings.limits.items():
        losses = state.loss(name)[kept]
        old, new = (_mean(losses[each], limit.bound) for each in (~is_new, is_new))
        numbers = limit.tolerated, limit.delta, limit.ratio, limit.bound
        found[name] = LossStatus(*numbers, old, new, _excess(limit, old, new))
    return found


def _mean(losses: Any, bound: float) -> SystemMean:
    known = losses[~np.isnan(losses)]
    made = estimate(known, bound)
    mean = float(made.mean) if len(known) else None
    return SystemMean(len(known), len(losses) - len(known), mean, made.lower, made.upper)


def _excess(limit: Guardrail, old: SystemMean, new: SystemMean) -> str:
    tolerated = limit.tolerated
    if tolerated is None:
        tolerated = limit.delta + (1 + limit.ratio) * old.upper
    if not new.outcomes or not new.lower > tolerated:
        return ""
    beside = f"; the old one {old.mean:.4g}" if old.outcomes else ""
    return (
        f"the new system's mean of {new.mean:.4g} on {new.outcomes} rows is shown to exceed "
        f"{tolerated:.4g}{beside}"
    )


def missing(losses: Mapping[str, LossStatus]) -> list[str]:
    """Which outcomes are missing so much that they hold a share back."""
    return [
        f"{found.missing} outcomes of {name} of the {system} system are missing"
        for name, each in losses.items()
        for system, found in (("old", each.old), ("new", each.new))
        if found.missing >= max(20, 0.05 * (found.outcomes + found.missing))
    ]


class Served:
    """A run that is served below a path: what holds now, and calls that use its store.

    `noticed(served)` is told whenever the store was looked at.
    """

    unit, fallback = "round", "safe policy"

    def __init__(self, name: str, title: str, run: Controller | Release, deadline: float) -> None:
        self.prefix = f"/{name}" if name else ""
        self.title, self.run, self.deadline = title, run, deadline
        self.seen: Status | None = None
        self.seq = -1
        self.is_available, self.takes_rows = False, True
        self._measured_at, self._measured = 0.0, (-1, dict[str, LossStatus]())
        self._task: asyncio.Task[None] | None = None

    async def start(self, noticed: Callable[[Served], None]) -> None:
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
        await asyncio.to_thread(self.run.close)

    @property
    def is_serving(self) -> bool:
        """Whether the store could be read a moment ago, and took the last rows."""
        return self.is_available and self.takes_rows

    @property
    def status(self) -> Status | None:
        """What holds, as of a moment ago; None if the store has never answered."""
        if (seen := self.seen) is None:
            return None
        seen = msgspec.structs.replace(seen, more=self.told())
        if self.is_serving:
            return seen
        told = (
            f"the store is unavailable: the {self.fallback} answers everything, and no promise "
            f"applies"
        )
        return msgspec.structs.replace(
            seen,
            state=told,
            verdict="unknown",
            warnings=[told, *seen.warnings],
            share=None if seen.share is None else 0.0,
            losses={n: msgspec.structs.replace(x, promise=None) for n, x in seen.losses.items()},
            store_available=False,
        )

    def told(self) -> dict[str, Any]:
        """What only its kind tells in its status."""
        return {}

    async def look(self) -> None:
        """Begin what is due, and see what holds now."""
        was, fields = self.is_available, {"fields": {"name": self.title}}
        try:
            self.seen = await self._submit(self._read)
            self.is_available = True
        except StoreError as error:
            self.is_available = False
            if was or self.seen is None:
                log.error("the store is unavailable: %s", error, extra=fields)
        if self.is_available and not was:
            log.info("the store is available", extra=fields)
        self._noticed(self)

    async def call(self, function: Callable[[], Result], invalid: int | None = None) -> Result:
        """What a function returns that uses the store, in a thread."""
        with refusals(invalid):
            return await asyncio.to_thread(function)

    async def do(self, job: Callable[[Transaction], Result]) -> Result:
        """What a job returns that runs in a transaction."""
        with refusals(409):
            return await self._submit(job)

    async def _submit(self, job: Callable[[Transaction], Result]) -> Result:
        return await asyncio.to_thread(self.run.submit, job, self.deadline)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                await self.look()
            except Exception:  # it must go on
                self.is_available = False
                log.exception("following the store failed")

    def _read(self, t: Transaction) -> Status:
        """What holds, inside a transaction; means only now and then, since they take long."""
        state: State = t.state
        last, seq, now = state.last, t.log.seq, time.monotonic()
        if seq != self._measured[0] and now >= self._measured_at:
            self._measured = seq, measure(state)
            spent = time.monotonic() - now
            self._measured_at = now + spent + max(FOLLOW_SECONDS, spent / MEASURE_SHARE)
        unit, promises, alarm = UnitStatus(), self._promises(state), None
        if last is not None:
            level = last.level if math.isfinite(last.level) else str(last.level)
            note, rows = str(last.decision.get("reason", "")), state.rows.size - last.before
            unit = UnitStatus(last.number, moment(last.begun), level, rows, note, last.policy)
        if state.standing is not None:
            it = state.alarms[state.standing - 1]
            alarm = AlarmStatus(it.number, it.unit, it.monitor, it.message, moment(it.raised))
        losses = {
            name: msgspec.structs.replace(each, promise=promises.get(name))
            for name, each in self._measured[1].items()
        }
        share = float(state.share) if state.given.decides_shares else None
        failures = [f"{name}: {each.exceeds}" for name, each in losses.items() if each.exceeds]
        if alarm is not None:
            told = f"alarm {alarm.number} stands ({alarm.monitor}): {alarm.message}"
            failures = [told, *failures]
        self.seq = seq
        return Status(
            name=self.title,
            kind=state.given.kind,
            state=self._sentence(unit, share, alarm),
            verdict="fail" if failures else "pass",
            warnings=[*failures, *missing(losses)],
            share=share,
            step=unit,
            alarm=alarm,
            losses=losses,
        )

    def _sentence(self, unit: UnitStatus, share: float | None, alarm: AlarmStatus | None) -> str:
        """What holds, in words."""
        if alarm is not None:
            return f"stopped by alarm {alarm.number}: {alarm.message}"
        if share is None:
            beta = math.exp(min(float(unit.level), 700.0))
            return f"round {unit.number} with a beta of {beta:.4g}"
        new, rows = ("system", "keys") if self.unit == "step" else ("policy", "actions")
        return f"the new {new} has {100 * share:.5g} % of the {rows} in {self.unit} {unit.number}"

    def _promises(self, state: State) -> Mapping[str, float | None]:
        if state.last is None or state.is_stopped:
            return {}
        found: Mapping[str, float] = state.last.decision.get("promises", {})
        return found


@contextmanager
def refusals(invalid: int | None = 400) -> Iterator[None]:
    """What a client is told whose call the store has not taken, or that is `invalid`."""
    try:
        yield
    except StoreError as error:
        log.error("a call failed: %s", error)
        raise ApiError(503, "the store is unavailable: repeat the request") from error
    except FinalLossError as error:
        raise ApiError(409, str(error)) from None
    except (ValueError, TypeError, OverflowError) as error:
        if invalid is None:
            raise
        raise ApiError(invalid, str(error)) from None


class PatientRelease(Release):
    """A release whose steps wait for `reported` losses, for at most `patience` seconds a row.

    They are those that the gateway reports by itself: an answer under way, in any process, is
    not a failure. To begin a step later is always allowed: which rows it rests on stays the same.
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


class Turn(Enum):
    """In which order a transaction does what requests ask for."""

    OBSERVE, OTHER, ASSIGN = range(3)


class Decided(NamedTuple):
    """The system of a key, and whether this request is the first unit of its row."""

    system: str
    is_first: bool


class ServedRelease(Served):
    """A release that is served, and everything that uses its store, in batches."""

    unit, fallback = "step", "old system"

    def __init__(
        self, name: str, title: str, release: Release, deadline: float, answer_within: float
    ) -> None:
        super().__init__(name, title, release, deadline)
        self.release, self._answer_within = release, answer_within
        self._batcher = Batcher(self._call, "tether-release")

    async def decide(self, keys: list[bytes]) -> list[Decided] | None:
        """The system of each key; None if the old one answers without the store."""
        was, found = self.takes_rows, None
        try:
            found = await self._batcher.ask((Turn.ASSIGN, keys), self._answer_within)
        except StoreError as error:
            if was:
                log.error("decisions are not stored; the old system answers: %s", error)
        self.takes_rows = found is not None
        if self.takes_rows and not was:
            log.info("decisions are stored again")
        return found

    async def observe(
        self,
        keys: list[bytes],
        systems: Sequence[str],
        losses: Mapping[str, Floats],
        *,
        keep_first: bool,
        within: float | None = None,
    ) -> tuple[int, int]:
        """Store losses: how many are new, and how many outcomes have no row, which is no error."""
        arms = np.array([SYSTEMS.index(system) for system in systems])
        keep = {"keep_first": keep_first, "skip_unknown": True}

        def job(t: Transaction) -> tuple[int, int]:
            return self.release.observe_in(t, keys, arms, losses, **keep)

        with refusals():
            within = self.deadline if within is None else within
            found: tuple[int, int] = await self._batcher.ask((Turn.OBSERVE, job), within)
            return found

    async def close(self) -> None:
        """Store what waits, and close the store."""
        await self._batcher.close()
        await super().close()

    async def _submit(self, job: Callable[[Transaction], Result]) -> Result:
        found: Result = await self._batcher.ask((Turn.OTHER, job), self.deadline)
        return found

    def _read(self, t: Transaction) -> Status:
        self.release.begin_if_due(t)
        return super()._read(t)

    def _promises(self, state: State) -> Mapping[str, float | None]:
        if state.share <= 0:  # the old system alone answers, at its own risk
            return {}
        return {name: each.tolerated for name, each in state.given.limits.items()}

    def _call(self, items: list[tuple[Turn, Any]], seconds: float) -> Sequence[Any]:
        """What comes of items, all of them in one transaction."""
        return self.release.submit(lambda t: self._in_turns(t, items), seconds)

    def _in_turns(self, t: Transaction, items: list[tuple[Turn, Any]]) -> Sequence[Any]:
        results: list[Any] = [None] * len(items)
        for turn in (Turn.OBSERVE, Turn.OTHER):
            for place, (its, job) in enumerate(items):
                if its is turn:
                    try:
                        results[place] = job(t)
                    except (ValueError, ApiError) as error:
                        results[place] = error
        asked = {place: keys for place, (its, keys) in enumerate(items) if its is Turn.ASSIGN}
        if asked:
            every = dict.fromkeys(key for keys in asked.values() for key in keys)
            arms, fresh = self.release.assign_in(t, list(every))
            for place, keys in asked.items():
                results[place] = []
                for key in keys:
                    results[place].append(Decided(SYSTEMS[arms[key]], key in fresh))
                    fresh.discard(key)
        return results


def check_count(items: Sequence[Any], name: str) -> None:
    """Refuse a list that is too long."""
    if len(items) > MOST_ITEMS:
        raise ApiError(400, f"{name} may have at most {MOST_ITEMS:,} items, got {len(items):,}")


def loss_columns(
    given: Iterable[tuple[Any, Mapping[str, float]]],
    limits: Mapping[str, Guardrail],
    keep_first: bool = False,
) -> tuple[list[Any], dict[str, Floats]]:
    """Rows, each once, and their losses by name, NaN where there is none."""
    merged: dict[Any, dict[str, float]] = {}
    for row, losses in given:
        known = merged.setdefault(row, {})
        for name, loss in losses.items():
            if known.setdefault(name, loss) != loss and not keep_first:
                raise ApiError(400, f"loss {name!r} of {row!r:.80} has two values in this request")
    names = dict.fromkeys(name for each in merged.values() for name in each)
    columns = {name: [each.get(name, math.nan) for each in merged.values()] for name in names}
    with refusals():
        return list(merged), named_losses(columns, limits, len(merged), of="outcomes")
