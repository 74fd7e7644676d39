"""The kinds of records that are saved, and the class of each."""

from __future__ import annotations

from tether._core.records import Saved
from tether.control.calibration import Calibration
from tether.monitor import KeyMonitor, RiskMonitor, ShiftMonitor
from tether.policies.ratio_error import RatioError
from tether.thresholds.selection import Selection

RECORD_CLASSES: tuple[type[Saved], ...] = (
    *(Calibration, Selection, RiskMonitor, ShiftMonitor, KeyMonitor, RatioError),
)


def find_kind(kind: str) -> type[Saved] | None:
    """The class of a kind of record; None if there is no such kind."""
    for each in (*RECORD_CLASSES, *_preflight_classes()):
        if each._kind == kind:
            return each
    return None


def _preflight_classes() -> tuple[type[Saved], ...]:
    from tether.llm.preflight_checks.result import Check, Cost, Preflight

    return (Preflight, Check, Cost)
