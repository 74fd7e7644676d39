"""Why the share of a release does not grow although time passes: too few keys are new to a system.

A row is the first unit of a key that the new system answered. Keys that come back add none, also
after an alarm was cleared: see docs/explanation/release.md, "What one row is".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from tether.release.calibration_window import replaces_window, window_name
from tether.release.old_rows_needed import usual_first_rows
from tether.release.ramp_calibration import NO_OLD_ROWS
from tether.rounds.releases import step as steps_of_releases

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import StepRecord

SEVERAL_ROWS = 3
"""So many rows of the new system must be expected before it is told that none has come."""


def stalled_share(steps: Sequence[StepRecord], *, wait: int) -> str:
    """Why the share of the last step stays, in words; empty if nothing holds it."""
    last = steps[-1]
    if last.calibration.confidence is not None or not 0 < last.share < 1:
        return ""
    ramp = [each for each in steps if each.ramp == last.ramp]
    resumed, has_rows = last.ramp > 1, any(each.new.rows for each in ramp)
    if resumed and not has_rows and not _has_waited(steps, ramp):
        return ""
    if resumed and not has_rows:
        return (
            f"since the ramp began again with step {last.ramp} no key was new to the new system; "
            f"keys that it answered before the alarm are no rows of this ramp, so the share stays "
            f"until other keys come"
        )
    window = [each for each in ramp if last.window_from <= each.number <= last.window]
    since = [each for each in ramp if last.window < each.number < last.number - wait]
    needed, rows = sum(each.new.rows for each in window), sum(each.new.rows for each in since)
    if not since or replaces_window(needed, rows):
        return ""
    return (
        f"in {window_name('step', since[0].number, since[-1].number)}, {rows:,} keys were new to "
        f"the new system, fewer than a quarter of the {needed:,} of "
        f"{last.window_steps}: the share stays until more such "
        f"keys have come, and keys that it has answered before are no rows"
    )


def open_first_step(steps: Sequence[StepRecord], step_seconds: float | None) -> str:
    """Why the first step, which collects rows of the old system, goes on after its time, in words.

    Empty if it does not.
    """
    first, found = steps[0], steps[0].calibration
    collects = len(steps) == 1 and found.reason == NO_OLD_ROWS and found.confidence is None
    if not collects or step_seconds is None:
        return ""
    least = usual_first_rows({name: each.guardrail for name, each in found.guardrails.items()})
    ends = datetime.fromisoformat(first.begun) + timedelta(seconds=step_seconds)
    if first.old.rows >= least or steps_of_releases.moment() < ends:
        return ""
    return (
        f"{steps_of_releases.goes_on(first.old.rows, least)}; with fewer the new one may never "
        f"have a key"
    )


def _has_waited(steps: Sequence[StepRecord], ramp: Sequence[StepRecord]) -> bool:
    """Whether rows of the new system should have come since the ramp began, if new keys come.

    Among keys that are new to both systems a share s has the new one, so for each row of the old
    system s/(1 − s) of the new one are expected. Keys that come back leave no rows, so where nobody
    else comes only time can tell: a step of the ramp ends without any row, or takes longer than any
    step before it. One that has rows of the old system may be slow; it is given twice as long.
    """
    expected = sum(each.old.rows * each.share / (1 - each.share) for each in ramp)
    if expected >= SEVERAL_ROWS or not all(each.old.rows for each in ramp[:-1]):
        return True
    begun = [datetime.fromisoformat(each.begun) for each in steps]
    lasted = [later - earlier for earlier, later in pairwise(begun)]
    patience = 2 if ramp[-1].old.rows else 1
    return steps_of_releases.moment() - begun[-1] > patience * max(lasted)
