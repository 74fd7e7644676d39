"""The share of the next step, from the rows that the theorems of docs/explanation/release.md allow.

In expectation the old system's rows are those of the log from before the release, or else of the
first step, which then has a share of 0. The new system's rows are those of the calibration window:
one step of the present ramp, or several with few rows each. With a confidence all rows of both
systems count.

**After an alarm** was cleared a new ramp begins, without a window. An alarm ends a step at a moment
that depends on its losses, so neither its rows nor an earlier window that is kept instead could be
used. Until its first alarm a ramp with monitors is at every step what it would be without, and then
its share is 0; so what holds for the share of a ramp without monitors holds for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from tether.release.arm_counts import ArmCounts
from tether.release.calibration_window import replaces_window
from tether.release.guardrail import Guardrail
from tether.release.ramp_calibration import ramp_share
from tether.rounds.releases.arm_rows import Arm, ArmRows
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.step import Seen, Step

FIRST_STEP = 1


class StepRows(Protocol):
    """The rows that the share of a step may be computed from."""

    def new_count(self, first: int, last: int) -> int:
        """How many rows the new system has in the steps from `first` to `last`."""
        ...

    def old(self) -> dict[str, ArmCounts]:
        """The rows of the old system."""
        ...

    def new(self, first: int, last: int) -> dict[str, ArmCounts]:
        """The rows of the new system, given the steps of the calibration window."""
        ...


def next_step(
    settings: ReleaseSettings,
    rows: ArmRows,
    previous: Step | None,
    *,
    alarm: int | None,
    cleared: int,
    seen: Seen,
    begun: str,
) -> Step:
    """The step after `previous`; `alarm` stands, and `cleared` is the last one that was cleared."""
    return follow_ramp(
        settings.guardrails,
        settings.confidence,
        _ReleaseRows(settings, rows),
        None if previous is None or cleared > previous.cleared else previous,
        number=FIRST_STEP if previous is None else previous.number + 1,
        wait=settings.wait,
        stops=None if alarm is None else f"alarm {alarm} stood when the step began",
        cleared=cleared,
        seen=seen,
        begun=begun,
    )


def follow_ramp(
    guardrails: Mapping[str, Guardrail],
    confidence: float | None,
    rows: StepRows,
    previous: Step | None,
    *,
    number: int,
    wait: int = 0,
    stops: str | None,
    cleared: int,
    seen: Seen,
    begun: str,
) -> Step:
    """The next step of a ramp; its first if there is no `previous` one.

    `stops` says why its share is 0 whatever the rows say.
    """
    ramp = number if previous is None else previous.ramp
    first, window = (0, 0) if previous is None else (previous.window_from, previous.window)
    share = None
    latest = number - 1 - wait
    if confidence is None and previous is not None and latest >= ramp:
        since = max(ramp, window + 1)
        if replaces_window(rows.new_count(first, window), rows.new_count(since, latest)):
            first, window = since, latest
        else:
            share = previous.ramp_share
    if share is None:
        new = rows.new(first, window)
        share = ramp_share(guardrails, old=rows.old(), new=new, confidence=confidence)
    if stops is not None:
        share = replace(share, share=0.0, reason=stops)
    return Step(number, share, window, ramp, cleared, seen, begun, first)


class _ReleaseRows:
    """The rows that a release uses."""

    def __init__(self, settings: ReleaseSettings, rows: ArmRows) -> None:
        self._settings, self._rows = settings, rows

    def new_count(self, first: int, last: int) -> int:
        return sum(self._rows.rows[Arm(step, True)] for step in range(first, last + 1))

    def old(self) -> dict[str, ArmCounts]:
        settings, rows = self._settings, self._rows
        if settings.confidence is not None:
            found = rows.counts(rows.of_system(is_new=False))
            return {name: _sum(each, found[name]) for name, each in settings.old_log.items()}
        if settings.log is not None:
            return settings.old_log
        return rows.counts([Arm(FIRST_STEP, False)])

    def new(self, first: int, last: int) -> dict[str, ArmCounts]:
        rows = self._rows
        if self._settings.confidence is not None:
            return rows.counts(rows.of_system(is_new=True))
        return rows.counts([Arm(step, True) for step in range(first, last + 1)])


def _sum(log: ArmCounts, found: ArmCounts) -> ArmCounts:
    return ArmCounts(log.rows + found.rows, log.total + found.total, log.pending + found.pending)
