"""What a Prometheus server reads of the losses of a release: means, and outcomes that are missing.

Every service of a release tells the same of them, since they come from the store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Gauge

from tether.rounds.history import Estimate

if TYPE_CHECKING:
    from tether.release.arm_counts import ArmCounts

_LATEST: Final = "livemostrecent"


class LossMetrics:
    """Gauges by system and guardrail."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rows, self._missing, self._mean, self._outcomes = (
            Gauge(
                f"tether_{name}",
                text,
                ["system", "guardrail"],
                multiprocess_mode=_LATEST,
                registry=registry,
            )
            for name, text in (
                ("share_rows", "Rows that the present share was computed from."),
                ("outcomes_missing", "Those of them without an outcome, counted as the bound."),
                ("loss_mean", "Mean loss of the present step so far; NaN before the first."),
                ("step_outcomes", "Outcomes of the present step so far."),
            )
        )
        self._known: set[tuple[str, str]] = set()

    def counted(self, counted: Mapping[tuple[str, str], ArmCounts]) -> None:
        """Note the rows that a share was computed from, by system and guardrail."""
        self._known |= counted.keys()
        for place, arm in counted.items():
            self._rows.labels(*place).set(arm.rows)
            self._missing.labels(*place).set(arm.pending)

    def present(self, losses: Mapping[str, Mapping[str, Estimate]]) -> None:
        """Note the means of the present step, by system and guardrail."""
        for system, name in self._known:
            found = losses.get(system, {}).get(name)
            self._mean.labels(system, name).set(math.nan if found is None else found.mean)
            self._outcomes.labels(system, name).set(0 if found is None else found.count)
