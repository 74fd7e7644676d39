"""What a Prometheus server reads of a service."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from tether.service.status import Status

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
