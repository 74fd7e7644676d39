"""What a gateway counts and logs: failures of upstreams, answers, and what it reports itself."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter as Count
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

FIRST_BYTE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The seconds that first bytes are counted by."""
FAILURES_LOGGED_EVERY = 60.0
"""Seconds between two lines in the log about the same thing."""

log = logging.getLogger("tether.service")


class RareLog:
    """Counts what happens, and logs the counts at once or, after a line, when a minute is over."""

    def __init__(self, event: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._event, self._clock = event, clock
        self._counts: Count[str] = Count()
        self._quiet_until = -math.inf

    def note(self, what: str, count: int = 1) -> None:
        """Count something, and maybe log it."""
        self._counts[what] += count
        now = self._clock()
        if now >= self._quiet_until:
            self._quiet_until = now + FAILURES_LOGGED_EVERY
            log.warning(self._event, extra={"fields": {"counts": dict(self._counts)}})
            self._counts.clear()


class GatewayMetrics:
    """The metrics of the gateway of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._failures = Counter(
            "tether_upstream_failures",
            "Requests that an upstream was chosen for and did not answer.",
            ["upstream", "reason"],
            registry=registry,
        )
        self._answers = Counter(
            "tether_gateway_answers",
            "Requests answered, by the system that was decided and the upstream that answered.",
            ["system", "served"],
            registry=registry,
        )
        self._first_byte = Histogram(
            "tether_gateway_first_byte_seconds",
            "Time from a request to the first byte of its answer.",
            ["system"],
            buckets=FIRST_BYTE_BUCKETS,
            registry=registry,
        )
        self.reports_waiting = Gauge(
            "tether_gateway_reports_waiting",
            "Losses that are to be stored.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._dropped = Counter(
            "tether_gateway_reports_dropped",
            "Losses given up, which count as the bound.",
            registry=registry,
        )
        self._failure_logs = {
            name: RareLog(f"the {name} upstream fails") for name in ("old", "new")
        }
        self._dropped_log = RareLog("losses are given up, and count as the bound")

    def failure(self, upstream: str, reason: str) -> None:
        """Count and log a failure."""
        self._failures.labels(upstream, reason).inc()
        self._failure_logs[upstream].note(reason)

    def dropped(self, count: int, why: str) -> None:
        """Count and log losses that are given up."""
        self._dropped.inc(count)
        self._dropped_log.note(why, count)

    def first_byte(self, system: str, served: str, seconds: float) -> None:
        """Count an answer that begins; `served` is "none" where no upstream has answered."""
        self._answers.labels(system, served).inc()
        self._first_byte.labels(system).observe(seconds)
