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
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Struct

from tether.runs import Controller, Guardrail, Release
from tether.runs.decide_share import is_over, used_rows
from tether.runs.errors import StoreError
from tether.runs.event_log import Transaction
from tether.runs.history import estimate, moment
from tether.runs.keys import OLD
from tether.runs.release import SYSTEMS
from tether.runs.state import LOSS, MICROSECONDS, State
from tether.service.api import ApiError
from tether.service.batcher import Batcher, calls_in_threads

FOLLOW_SECONDS = 0.5
"""How often the store is looked at, beside all requests."""
MEASURE_SHARE = 0.02
"""At most this part of the time goes into means and intervals."""
CALLS_AT_ONCE, CALLS_WAITING = 4, 200
"""How many other calls use the store at once, and how many more may wait."""

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

    number: int
    begun: str
    level: float | str
    rows: int
    note: str
    policy: str | None


class AlarmStatus(Struct, frozen=True):
    """The alarm that stands."""

    number: int
    unit: int
    monitor: str
    message: str
    raised: str


class Present(Struct, frozen=True):
    """What holds now; a round has no share."""

    unit: str
    step: UnitStatus
    share: float | None
    alarm: AlarmStatus | None
    losses: dict[str, LossStatus]
    seq: int

    @property
    def failures(self) -> list[str]:
        """Why another tool must not go on: an alarm, or a mean that is shown to exceed."""
        found = []
        if (alarm := self.alarm) is not None:
            found.append(f"alarm {alarm.number} stands ({alarm.monitor}): {alarm.message}")
        return found + [f"{name}: {x.exceeds}" for name, x in self.losses.items() if x.exceeds]

    @property
    def sentence(self) -> str:
        """What holds, in words."""
        if self.alarm is not None:
            return f"stopped by alarm {self.alarm.number}: {self.alarm.message}"
        if self.share is None:
            beta = math.exp(min(float(self.step.level), 700.0))
            return f"round {self.step.number} with a beta of {beta:.4g}"
        new, rows = ("system", "keys") if self.unit == "step" else ("policy", "actions")
        percent = f"{100 * self.share:.5g} %"
        return f"the new {new} has {percent} of the {rows} in {self.unit} {self.step.number}"


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


class Served:
    """A run that is served below a path: what holds now, and calls that use its store.

    `noticed(served)` is told whenever the store was looked at. `hidden` are paths of endpoints that
    it does not have.
    """

    unit = "round"
    hidden: frozenset[str] = frozenset()

    def __init__(self, name: str, title: str, run: Controller | Release, deadline: float) -> None:
        self.prefix = f"/{name}" if name else ""
        self.title, self.run, self.deadline = title, run, deadline
        self.present: Present | None = None
        self.is_available, self.takes_rows = False, True
        self._calls = calls_in_threads(CALLS_AT_ONCE, CALLS_WAITING, "tether-calls")
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
        await self._calls.close()
        await asyncio.to_thread(self.run.close)

    @property
    def is_serving(self) -> bool:
        """Whether the store could be read a moment ago, and took the last rows."""
        return self.is_available and self.takes_rows

    def told(self) -> dict[str, Any]:
        """What only its kind tells in its status."""
        return {}

    def offers(self) -> list[dict[str, Any]]:
        """What people may do on its page, beside halt and resume."""
        return []

    async def look(self) -> None:
        """Begin what is due, and see what holds now."""
        was, fields = self.is_available, {"fields": {"name": self.title}}
        try:
            self.present = await self._submit(self._read)
            self.is_available = True
        except StoreError as error:
            self.is_available = False
            if was or self.present is None:
                log.error("the store is unavailable: %s", error, extra=fields)
        if self.is_available and not was:
            log.info("the store is available", extra=fields)
        self._noticed(self)

    async def call(self, function: Callable[[], Result]) -> Result:
        """What a function returns that uses the store, in a thread."""
        with store_errors():
            found: Result = await self._calls.ask(function, self.deadline)
            return found

    async def do(self, job: Callable[[Transaction], Result]) -> Result:
        """What a job returns that runs in a transaction."""
        with store_errors():
            return await self._submit(job)

    async def _submit(self, job: Callable[[Transaction], Result]) -> Result:
        found: Result = await self._calls.ask(lambda: self.run.submit(job), self.deadline)
        return found

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                await self.look()
            except Exception:  # it must go on
                self.is_available = False
                log.exception("following the store failed")

    def _read(self, t: Transaction) -> Present:
        """What holds, inside a transaction; means only now and then, since they take long."""
        state: State = t.state
        last, seq, now = state.last, state.seq, time.monotonic()
        if seq != self._measured[0] and now >= self._measured_at:
            self._measured = seq, measure(state)
            spent = time.monotonic() - now
            self._measured_at = now + spent + max(FOLLOW_SECONDS, spent / MEASURE_SHARE)
        unit, promises, alarm = UnitStatus(0, "", 0.0, 0, "", None), self._promises(state), None
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
        return Present(self.unit, unit, share, alarm, losses, seq)

    def _promises(self, state: State) -> Mapping[str, float | None]:
        if state.last is None or state.is_stopped:
            return {}
        found: Mapping[str, float] = state.last.decision.get("promises", {})
        return found


@contextmanager
def store_errors() -> Iterator[None]:
    """What a client is told whose call the store has not taken."""
    try:
        yield
    except StoreError as error:
        log.error("a call failed: %s", error)
        raise ApiError(503, "the store is unavailable: repeat the request") from error


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


class Assign(NamedTuple):
    """Keys whose systems are asked for."""

    keys: list[bytes]


class Observe(NamedTuple):
    """Losses of keys under the systems that answered."""

    keys: list[bytes]
    losses: dict[str, list[float]]
    systems: list[str]
    keep_first: bool


class OutcomeResult(Struct):
    """How many losses are new, and how many outcomes the system has no row of in the store."""

    new: int
    without_row: int


class Decided(NamedTuple):
    """The system of a key, and whether this request is the first unit of its row."""

    system: str
    is_first: bool


Item = Assign | Observe | Callable[[Transaction], Any]


class ServedRelease(Served):
    """A release that is served, and everything that uses its store, in batches."""

    unit = "step"

    def __init__(
        self, name: str, title: str, release: Release, deadline: float, answer_within: float
    ) -> None:
        super().__init__(name, title, release, deadline)
        self.release, self._answer_within = release, answer_within
        self.batcher: Batcher[Item, Any] = Batcher(self._call, name="tether-release")

    async def decide(self, keys: list[bytes]) -> list[Decided] | None:
        """The system of each key; None if the old one answers without the store."""
        was, found = self.takes_rows, None
        try:
            found = await self.batcher.ask(Assign(keys), self._answer_within)
        except StoreError as error:
            if was:
                log.error("decisions are not stored; the old system answers: %s", error)
        self.takes_rows = found is not None
        if self.takes_rows and not was:
            log.info("decisions are stored again")
        return found

    async def observe(self, observe: Observe, within: float | None = None) -> OutcomeResult:
        """Store losses; outcomes of which the system has no row are passed over."""
        with store_errors():
            within = self.deadline if within is None else within
            return await self.batcher.ask(observe, within)  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Store what waits, and close the store."""
        await self.batcher.close()
        await super().close()

    async def _submit(self, job: Callable[[Transaction], Result]) -> Result:
        return await self.batcher.ask(job, self.deadline)  # type: ignore[no-any-return]

    def _read(self, t: Transaction) -> Present:
        self.release.begin_if_due(t)
        return super()._read(t)

    def _promises(self, state: State) -> Mapping[str, float | None]:
        if state.share <= 0:  # the old system alone answers, at its own risk
            return {}
        return {name: each.tolerated for name, each in state.given.limits.items()}

    def _call(self, items: list[Item], seconds: float) -> Sequence[Any]:
        """What comes of items, all of them in one transaction."""
        try:
            return self.release.submit(lambda t: self._job(t, items), seconds)
        except StoreError as error:
            return [error] * len(items)

    def _job(self, t: Transaction, items: list[Item]) -> Sequence[Any]:
        results: list[Any] = [None] * len(items)
        for place, item in enumerate(items):
            if isinstance(item, Observe):
                results[place] = _attempt(self._observe, t, item)
        for place, item in enumerate(items):
            if callable(item):
                results[place] = _attempt(item, t)
        asked = {place: item.keys for place, item in enumerate(items) if isinstance(item, Assign)}
        if asked:
            arms, fresh = self.release.assign_in(
                t, list(dict.fromkeys(key for keys in asked.values() for key in keys))
            )
            for place, keys in asked.items():
                results[place] = []
                for key in keys:
                    results[place].append(Decided(SYSTEMS[arms[key]], key in fresh))
                    fresh.discard(key)
        return results

    def _observe(self, t: Transaction, item: Observe) -> OutcomeResult:
        arms = np.array([SYSTEMS.index(system) for system in item.systems])
        columns = {LOSS + name: np.array(values) for name, values in item.losses.items()}
        keep = {"keep_first": item.keep_first, "skip_unknown": True}
        return OutcomeResult(*self.release.observe_in(t, item.keys, arms, columns, **keep))


def _attempt(job: Callable[..., Any], *given: Any) -> Any:
    try:
        return job(*given)
    except (ValueError, ApiError) as error:
        return error


def one_or_many(one: Any, many: Any, name: str, most: int) -> list[Any]:
    """The items of a request, which has either one of them or a list."""
    if (one is UNSET) == (many is UNSET):
        raise ApiError(400, f"the body must have either {name.removesuffix('s')} or {name}")
    found = [one] if many is UNSET else many
    if len(found) > most:
        raise ApiError(400, f"{name} may have at most {most:,} items, got {len(found):,}")
    return found


def loss_columns(
    given: Iterable[tuple[Any, str, Mapping[str, float]]],
    limits: Mapping[str, Guardrail],
    keep_first: bool = False,
) -> tuple[list[Any], dict[str, list[float]]]:
    """Rows, each once, and their losses by name, NaN where there is none.

    Given are rows, what they are called, and losses. A name that is not a loss, a loss out of its
    range and two values of one loss are refused.
    """
    merged: dict[Any, dict[str, float]] = {}
    for row, called, losses in given:
        known = merged.setdefault(row, {})
        for name, loss in losses.items():
            if name not in limits:
                raise ApiError(400, f"losses must be among {list(limits)}, got {name!r:.80}")
            if not 0 <= loss <= (bound := limits[name].bound):
                is_percent = bound == 1 < loss <= 100
                hint = f": is it a percentage? {loss:g} % is {loss / 100:g}" if is_percent else ""
                told = f"loss {name!r} must be from 0 to {bound:g}, got {loss:g}{hint}"
                raise ApiError(400, told)
            if known.setdefault(name, loss) != loss and not keep_first:
                told = f"loss {name!r} of {called:.80} has two values in this request"
                raise ApiError(400, told)
    names = [name for name in limits if any(name in each for each in merged.values())]
    columns = {name: [each.get(name, math.nan) for each in merged.values()] for name in names}
    return list(merged), columns
