"""What a Prometheus server reads of a service."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from tether.rounds.releases.release_history import WARNING_KINDS
from tether.rounds.releases.served_release import ReleaseState
from tether.service.operating.loss_metrics import LossMetrics
from tether.service.served import ServedState

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""The seconds that requests are counted by."""
FIGURES = {
    "share": "The share of the new system, or of the new policy; 0 while the store fails.",
    "step": "The number of the present step.",
    "round": "The number of the present round.",
    "beta": "How far the optimized policy may go; 0 while the store fails.",
    "step_keys": "Rows of the present step so far: keys that a system answered for the first time.",
}
"""The figures of a state, and what is told of a release: gauges of the same names."""
SERVED_LEVELS = frozenset({"share", "beta"})
"""Those of them that say how far the new system goes: not at all without the store."""
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which several workers share their metrics."""
_LATEST: Final = "livemostrecent"
_LEAST: Final = "livemin"
_SUM: Final = "livesum"


class ServiceMetrics:
    """The metrics of a service: of this process, or of all its workers together."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        kept = self.registry
        self._requests = Counter(
            "tether_http_requests", "Requests answered.", ["route", "status"], registry=kept
        )
        self._seconds = Histogram(
            "tether_http_request_seconds",
            "Time to answer a request.",
            ["route"],
            buckets=LATENCY_BUCKETS,
            registry=kept,
        )
        decisions = Counter(
            "tether_decisions",
            "Keys answered, with those that come back; without the store stored is false.",
            ["system", "stored"],
            registry=kept,
        )
        self._decisions = {
            "old": decisions.labels("old", "true"),
            "new": decisions.labels("new", "true"),
            None: decisions.labels("old", "false"),
        }
        self._actions = Counter(
            "tether_actions",
            "Actions taken; failed=true if the safe policy stood in for the round's.",
            ["served", "stored", "failed"],
            registry=kept,
        )
        self.decision_count = 0
        self._outcomes = Counter(
            "tether_outcomes",
            "Losses stored for the first time, without repeats; of a run the guardrail is the name "
            "of the loss.",
            ["system", "guardrail"],
            registry=kept,
        )
        self._without_row = Counter(
            "tether_outcomes_without_row",
            "Keys of outcomes that were skipped: the system has no row of them.",
            registry=kept,
        )
        self.losses = LossMetrics(kept)
        self._acts = Counter("tether_operator_acts", "Acts of people.", ["act"], registry=kept)
        self._figures: dict[str, Gauge] = {}
        self._warnings = Gauge(
            "tether_warnings",
            "1 while something of a kind keeps the share down or looks wrong; /v1/status has it in "
            "words.",
            ["kind"],
            multiprocess_mode=_LATEST,
            registry=kept,
        )
        self._alarm = Gauge(
            "tether_alarm_standing",
            "1 while an alarm stands.",
            multiprocess_mode=_LATEST,
            registry=kept,
        )
        self._available = Gauge(
            "tether_store_available",
            "1 if the store answers.",
            multiprocess_mode=_LEAST,
            registry=kept,
        )
        self._waiting = Gauge(
            "tether_unstored_waiting",
            "Answers without the store that wait to be listed in it.",
            multiprocess_mode=_SUM,
            registry=kept,
        )
        self._listed = Counter(
            "tether_unstored_listed", "Answers without the store listed in it.", registry=kept
        )
        self._promise = Gauge(
            "tether_promise",
            "What is promised of each guardrail; NaN while nothing is.",
            ["guardrail"],
            multiprocess_mode=_LATEST,
            registry=kept,
        )
        self._promised: set[str] = set()
        self._listed_before = 0
        self._webhooks = Counter(
            "tether_webhook_attempts",
            "Events sent: delivered, failed (and tried again), or given_up.",
            ["webhook", "result"],
            registry=kept,
        )
        self._routes: dict[str, Histogram] = {}
        self._statuses: dict[tuple[str, int], Counter] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        if (timed := self._routes.get(route)) is None:
            timed = self._routes[route] = self._seconds.labels(route)
        timed.observe(seconds)
        if (counted := self._statuses.get((route, status))) is None:
            counted = self._statuses[route, status] = self._requests.labels(route, str(status))
        counted.inc()

    def decisions(self, systems: list[str | None]) -> None:
        """Count answers to keys."""
        self.decision_count += len(systems)
        for system in systems:
            self._decisions[system].inc()

    def actions(self, safe: int, tethered: int, *, stored: bool, failed: bool) -> None:
        """Count actions."""
        self.decision_count += safe + tethered
        for name, count in (("safe", safe), ("tethered", tethered)):
            if count:
                labels = (name, str(stored).lower(), str(failed).lower())
                self._actions.labels(*labels).inc(count)

    def outcomes(self, counts: Mapping[tuple[str, str], int], without_row: int = 0) -> None:
        """Count new losses by system and guardrail, and keys that have no row."""
        for place, count in counts.items():
            self._outcomes.labels(*place).inc(count)
        self._without_row.inc(without_row)

    def act(self, name: str) -> None:
        """Count what a person did."""
        self._acts.labels(name).inc()

    def webhook(self, place: int, result: str) -> None:
        """Count what became of an event that was sent to a webhook."""
        self._webhooks.labels(str(place), result).inc()

    def state(self, state: ServedState | None, *, is_served: bool = True) -> None:
        """Note what holds now; None if the store does not tell.

        It is not served while the store takes no decisions.
        """
        if state is None:
            return
        for name, figure in state.figures.items():
            if is_served or name not in SERVED_LEVELS:
                self._set_figure(name, figure)
        self._alarm.set(state.alarm is not None)
        if isinstance(state, ReleaseState):
            self._set_figure("step_keys", state.keys)
            self.losses.counted(state.counted)
        # otherwise the old system answers, at its own risk
        holds = is_served and state.figures.get("share", 1.0) > 0
        self._promised |= state.promises.keys()
        for name in self._promised:
            promise = state.promises.get(name, math.nan) if holds else math.nan
            self._promise.labels(name).set(promise)

    def warnings(self, kinds: Collection[str]) -> None:
        """Note what keeps the share of a release down or looks wrong, by kind."""
        for kind in WARNING_KINDS:
            self._warnings.labels(kind).set(kind in kinds)

    def _set_figure(self, name: str, figure: float) -> None:
        if name not in self._figures:
            self._figures[name] = Gauge(
                f"tether_{name}", FIGURES[name], multiprocess_mode=_LATEST, registry=self.registry
            )
        self._figures[name].set(figure)

    def available(self, is_available: bool) -> None:
        """Note whether the store answers and takes decisions.

        While it does not, the old system answers, and nothing is promised.
        """
        self._available.set(is_available)
        if not is_available:
            for name in SERVED_LEVELS & self._figures.keys():
                self._set_figure(name, 0.0)
            for name in self._promised:
                self._promise.labels(name).set(math.nan)

    def unstored(self, waiting: int, listed: int) -> None:
        """Note how many answers without the store wait to be listed in it, and how many were."""
        self._waiting.set(waiting)
        self._listed.inc(listed - self._listed_before)
        self._listed_before = listed

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        if METRICS_FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
