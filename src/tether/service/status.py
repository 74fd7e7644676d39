"""What holds of a release or run, also for Prometheus: how it stands, its losses, the verdict."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tether.runs import Guardrail
from tether.runs.history import estimate, moment
from tether.runs.keys import OLD
from tether.runs.settings import RELEASE
from tether.runs.state import State


class SystemMean(Struct, frozen=True):
    """The mean loss of a system since the ramp or round began, with a 95 % interval."""

    outcomes: int
    missing: int
    mean: float | None  # NaN is null in JSON
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


OUTAGE = "The store is unavailable: the old system or safe policy answers, and no promise applies."


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

    def without_store(self) -> Status:
        """What holds while the store is unavailable: nothing is promised."""
        replace = msgspec.structs.replace
        return replace(
            self,
            state=OUTAGE,
            verdict="unknown",
            warnings=[OUTAGE, *self.warnings],
            share=None if self.share is None else 0.0,
            losses={name: replace(each, promise=None) for name, each in self.losses.items()},
            store_available=False,
        )


def measure(state: State) -> dict[str, LossStatus]:
    """The losses since the present ramp, or round, began."""
    settings, since = state.given, state.units[-1]
    if settings.decides_shares:
        since = state.units[max(since.ramp, 1) - 1]
    kept = state.kept(slice(since.before, state.rows.size))
    is_new = state.rows["arm"][kept] > OLD
    found = {}
    for name, limit in settings.limits.items():
        losses = state.loss(name)[kept]
        old, new = (_mean(losses[each], limit.bound) for each in (~is_new, is_new))
        numbers = limit.tolerated, limit.delta, limit.ratio, limit.bound
        found[name] = LossStatus(*numbers, old, new, _excess(limit, old, new))
    return found


def _mean(losses: Any, bound: float) -> SystemMean:
    made = estimate(losses[~np.isnan(losses)], bound)
    return SystemMean(made.count, len(losses) - made.count, made.mean, made.lower, made.upper)


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


def _promises(state: State) -> dict[str, float]:
    """What is promised now, where it is a number: nothing while the old system alone serves."""
    last, settings = state.units[-1], state.given
    if state.is_stopped or (settings.decides_shares and last.level <= 0):
        return {}
    promises = last.decision.get("promises", {})
    return {name: promises[name] for name in promises if not settings.limits[name].is_relative}


def read_status(name: str, state: State, losses: dict[str, LossStatus]) -> Status:
    """What holds in a state whose losses were measured."""
    last, alarm = state.units[-1], None
    level = last.level if math.isfinite(last.level) else str(last.level)
    note, rows = str(last.decision.get("reason", "")), state.rows.size - last.before
    unit = UnitStatus(last.number, moment(last.begun), level, rows, note, last.policy)
    failures = [f"{name}: {each.exceeds}" for name, each in losses.items() if each.exceeds]
    if state.standing is not None:
        it = state.alarms[state.standing - 1]
        alarm = AlarmStatus(it.number, it.unit, it.monitor, it.message, moment(it.raised))
        failures.insert(0, f"alarm {it.number} stands ({it.monitor}): {it.message}")
    share = float(state.share) if state.given.decides_shares else None
    replace, promises = msgspec.structs.replace, _promises(state)
    return Status(
        name=name,
        kind=state.given.kind,
        state=_sentence(state.given.kind, unit, share, alarm),
        verdict="fail" if failures else "pass",
        warnings=failures,
        share=share,
        step=unit,
        alarm=alarm,
        losses={name: replace(each, promise=promises.get(name)) for name, each in losses.items()},
    )


def _sentence(kind: str, unit: UnitStatus, share: float | None, alarm: AlarmStatus | None) -> str:
    if alarm is not None:
        return f"stopped by alarm {alarm.number}: {alarm.message}"
    if share is None:
        beta = math.exp(min(float(unit.level), 700.0))
        return f"round {unit.number} with a beta of {beta:.4g}"
    percent = f"{100 * share:.5g} %"
    if kind == RELEASE:
        return f"the new system has {percent} of the keys in step {unit.number}"
    return f"the new policy has {percent} of the actions in round {unit.number}"


# ---- Prometheus ---------------------------------------------------------------------------------

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The seconds that requests, and first bytes of the gateway, are counted by."""
METRICS: dict[str, tuple[Any, str, str]] = {
    "share": (Gauge, "The share of the new system or policy; 0 while the store fails.", "release"),
    "log_beta": (Gauge, "How far the policy may go, as a log; -Inf is not at all.", "release"),
    "step": (Gauge, "The number of the present step or round.", "release"),
    "step_rows": (Gauge, "Rows of the present step or round so far.", "release"),
    "alarm_standing": (Gauge, "1 while an alarm stands.", "release"),
    "gate_failing": (Gauge, "1 while there is an alarm, or a mean shown to exceed.", "release"),
    "store_available": (Gauge, "1 if the store answers and takes rows.", "release"),
    "tolerated": (Gauge, "What is tolerated of each loss; NaN if relative.", "release guardrail"),
    "promise": (Gauge, "What is promised; NaN while nothing is.", "release guardrail"),
    "loss_mean": (Gauge, "Mean since the ramp or round began.", "release guardrail system"),
    "loss_lower": (Gauge, "Lower end of its 95 % interval.", "release guardrail system"),
    "loss_outcomes": (Gauge, "Outcomes that are known.", "release guardrail system"),
    "loss_missing": (Gauge, "Rows without an outcome.", "release guardrail system"),
    "http_requests": (Counter, "Requests answered.", "route status"),
    "http_request_seconds": (Histogram, "Time to answer a request.", "route"),
    "decisions": (Counter, "Keys answered, with or without the store.", "release system stored"),
    "actions": (Counter, "Actions taken, by who took them.", "release served stored"),
    "outcomes": (Counter, "Losses stored for the first time.", "release"),
    "outcomes_without_row": (Counter, "Outcomes skipped: there is no row of them.", "release"),
    "webhook_attempts": (Counter, "Sent: delivered, failed for now, given_up.", "webhook result"),
    "upstream_failures": (Counter, "Requests left without answer.", "release upstream reason"),
    "gateway_answers": (Counter, "By system decided and asked.", "release system served"),
    "gateway_first_byte_seconds": (Histogram, "Time to the first byte.", "release system"),
    "gateway_reports_dropped": (Counter, "Losses given up, which count as the bound.", "release"),
}
"""What is told, counted and measured: its kind, its description and its labels."""


class ServiceMetrics:
    """The metrics of a service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._metrics: dict[str, Any] = {}
        for name, (kind, text, labels) in METRICS.items():
            more: dict[str, Any] = {"buckets": BUCKETS} if kind is Histogram else {}
            self._metrics[name] = kind(
                f"tether_{name}", text, labels.split(), registry=self.registry, **more
            )

    def of(self, name: str, *labels: str) -> Any:
        """One of `METRICS` with its labels, as its kind: to count, to set, or to observe."""
        return self._metrics[name].labels(*labels)

    def status(self, release: str, status: Status | None) -> None:
        """Note what holds now."""
        if status is None:
            self.of("store_available", release).set(0)
            return
        figures = {"share": status.share}
        if status.share is None:
            level = float(status.step.level) if status.store_available else -math.inf
            figures = {"log_beta": level}
        is_exceeded = any(each.exceeds for each in status.losses.values())
        figures |= {
            "store_available": status.store_available,
            "step": status.step.number,
            "step_rows": status.step.rows,
            "alarm_standing": status.alarm is not None,
            "gate_failing": status.alarm is not None or is_exceeded,
        }
        for name, value in figures.items():
            self.of(name, release).set(value)
        for loss, each in status.losses.items():
            for name, known in (("tolerated", each.tolerated), ("promise", each.promise)):
                self.of(name, release, loss).set(math.nan if known is None else known)
            for system, mean in (("old", each.old), ("new", each.new)):
                for figure in ("mean", "lower", "outcomes", "missing"):
                    value = getattr(mean, figure)
                    self.of(f"loss_{figure}", release, loss, system).set(value)
