"""What a Prometheus server reads of a service."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from tether.service.status import Status

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
FIRST_BYTE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The seconds that requests, and first bytes of the gateway, are counted by."""
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "share": ("The share of the new system or policy; 0 while the store fails.", ()),
    "log_beta": ("How far the optimized policy may go, as a log; -Inf is not at all.", ()),
    "step": ("The number of the present step or round.", ()),
    "step_rows": ("Rows of the present step or round so far.", ()),
    "alarm_standing": ("1 while an alarm stands.", ()),
    "gate_failing": ("1 while the gate fails: an alarm, or a mean shown to exceed.", ()),
    "store_available": ("1 if the store answers and takes rows.", ()),
    "reports_waiting": ("Losses of the gateway that are to be stored.", ()),
    "tolerated": ("What is tolerated of each loss; NaN if relative.", ("guardrail",)),
    "promise": ("What is promised of each loss; NaN while nothing is.", ("guardrail",)),
    "loss_mean": ("Mean loss since the ramp or round began.", ("guardrail", "system")),
    "loss_lower": ("Lower end of its 95 % interval.", ("guardrail", "system")),
    "loss_outcomes": ("Outcomes that are known.", ("guardrail", "system")),
    "loss_missing": ("Rows without an outcome.", ("guardrail", "system")),
}
"""What is told of each release or run, which all have the label `release`."""
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "http_requests": ("Requests answered.", ("route", "status")),
    "decisions": (
        "Keys answered; without the store stored is false.", ("release", "system", "stored"),
    ),
    "actions": ("Actions taken, by who took them.", ("release", "served", "stored")),
    "outcomes": ("Losses stored for the first time.", ("release",)),
    "outcomes_without_row": ("Outcomes that were skipped: there is no row of them.", ("release",)),
    "operator_acts": ("Acts of people.", ("release", "act")),
    "webhook_attempts": (
        "Events sent: delivered, failed (and tried again), or given_up.", ("webhook", "result"),
    ),
    "upstream_failures": (
        "Requests that an upstream did not answer.", ("release", "upstream", "reason"),
    ),
    "gateway_answers": (
        "Requests answered, by the system decided and the upstream that answered.",
        ("release", "system", "served"),
    ),
    "gateway_reports_dropped": ("Losses given up, which count as the bound.", ("release",)),
}  # fmt: skip
"""What is counted."""
HISTOGRAMS: dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "http_request_seconds": ("Time to answer a request.", ("route",), LATENCY_BUCKETS),
    "gateway_first_byte_seconds": (
        "Time from a request to the first byte of its answer.",
        ("release", "system"),
        FIRST_BYTE_BUCKETS,
    ),
}
"""What is measured of requests."""


class ServiceMetrics:
    """The metrics of a service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        kept: dict[str, Any] = {"registry": self.registry}
        self._metrics: dict[str, Any] = {}
        for name, (text, labels) in COUNTERS.items():
            self._metrics[name] = Counter(f"tether_{name}", text, labels, **kept)
        for name, (text, labels, limits) in HISTOGRAMS.items():
            made = Histogram(f"tether_{name}", text, labels, buckets=limits, **kept)
            self._metrics[name] = made
        for name, (text, labels) in GAUGES.items():
            self._metrics[name] = Gauge(f"tether_{name}", text, ("release", *labels), **kept)

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Count something."""
        self._metrics[name].labels(*labels).inc(by)

    def put(self, name: str, value: float | None, *labels: str) -> None:
        """Say how large something is now; None is not known."""
        self._metrics[name].labels(*labels).set(math.nan if value is None else value)

    def time(self, name: str, seconds: float, *labels: str) -> None:
        """Say how long something took."""
        self._metrics[name].labels(*labels).observe(seconds)

    def status(self, release: str, status: Status | None) -> None:
        """Note what holds now."""
        if status is None:
            self.put("store_available", 0, release)
            return
        if status.share is not None:
            figures = {"share": status.share}
        else:
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
            self.put(name, value, release)
        for loss, each in status.losses.items():
            self.put("tolerated", each.tolerated, release, loss)
            self.put("promise", each.promise, release, loss)
            for system, mean in (("old", each.old), ("new", each.new)):
                for figure in ("mean", "lower", "outcomes", "missing"):
                    self.put(f"loss_{figure}", getattr(mean, figure), release, loss, system)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)
