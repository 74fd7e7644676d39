"""The share of the next step, from the rows that the theorems of docs/release.md allow.

In expectation the old system's rows are those of the log from before the release, or else of the
first step, which then has a share of 0. The new system's rows are those of one step of the present
ramp, the calibration window. With a confidence all rows of both systems count.

**After an alarm** was cleared a new ramp begins, without a window. An alarm ends a step at a moment
that depends on its losses, so neither its rows nor an earlier window that is kept instead could be
used. Until its first alarm a ramp with monitors is at every step what it would be without, and then
its share is 0; so what holds for the share of a ramp without monitors holds for it.
"""

from __future__ import annotations

from dataclasses import replace

from tether.release.arm_counts import ArmCounts
from tether.release.calibration_window import replaces_window
from tether.release.ramp_calibration import ramp_share
from tether.rounds.releases.arm_rows import Arm, ArmRows
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.step import Seen, Step

FIRST_STEP = 1


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
    number = FIRST_STEP if previous is None else previous.number + 1
    begins_ramp = previous is None or cleared > previous.cleared
    ramp = number if begins_ramp or previous is None else previous.ramp
    window = 0 if begins_ramp or previous is None else previous.window
    share = None
    if settings.confidence is None:
        latest = number - 1 - settings.wait
        if latest >= ramp:
            if replaces_window(_new_rows(rows, window), _new_rows(rows, latest)):
                window = latest
            elif previous is not None:
                share = previous.ramp_share
    if share is None:
        share = ramp_share(
            settings.guardrails,
            old=_old(settings, rows),
            new=_new(settings, rows, window),
            confidence=settings.confidence,
        )
    if alarm is not None:
        share = replace(share, share=0.0, reason=f"alarm {alarm} stands: the old system answers")
    return Step(number, share, window, ramp, cleared, seen, begun)


def _new_rows(rows: ArmRows, step: int) -> int:
    return rows.rows[Arm(step, True)]


def _old(settings: ReleaseSettings, rows: ArmRows) -> dict[str, ArmCounts]:
    if settings.confidence is not None:
        found = rows.counts(rows.of_system(is_new=False))
        return {name: _sum(each, found[name]) for name, each in settings.old_log.items()}
    if settings.log is not None:
        return settings.old_log
    return rows.counts([Arm(FIRST_STEP, False)])


def _new(settings: ReleaseSettings, rows: ArmRows, window: int) -> dict[str, ArmCounts]:
    if settings.confidence is not None:
        return rows.counts(rows.of_system(is_new=True))
    return rows.counts([Arm(window, True)])


def _sum(log: ArmCounts, found: ArmCounts) -> ArmCounts:
    return ArmCounts(log.rows + found.rows, log.total + found.total, log.pending + found.pending)
