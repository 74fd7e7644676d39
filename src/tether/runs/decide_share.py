"""The share of the next step of a release or ramp: a pure function of the state.

The release itself, verification and planning call the same function. Data are the units of the last
step that is ready: over, and with its outcomes known or their deadline passed. An outcome that is
not known counts as the worst loss for the new system, and as none for the old one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.arrays import Floats, Integers
from tether.runs.settings import Settings
from tether.runs.shares import (
    GROWTH_STEP,
    LARGEST_RELATIVE,
    Guardrail,
    fresh_share,
    grown,
    relative_share,
    sticky_share,
)
from tether.runs.state import MICROSECONDS, NEW, OLD, State, Unit


def is_over(state: State, now: int) -> bool:
    """Whether the present step has ended by itself, or an alarm was cleared since it began."""
    last, settings = state.last, state.given
    if last is None or state.standing is not None:
        return False
    if state.cleared > last.cleared:
        return True
    if _collects_old_rows(state, last) and _fewest_old_rows(state, last) == 0:
        return False
    if settings.units_per_step is not None:
        return state.rows.size - last.before >= settings.units_per_step
    if settings.step_seconds is not None:
        return now - last.begun >= settings.step_seconds * MICROSECONDS
    return False


def decide_share(state: State, now: int) -> dict[str, Any]:
    """The header of the next `round` event, but for its number: the share, and what it rests on."""
    last, number = state.last, len(state.units) + 1
    begins = last is None or last.cleared != state.cleared
    ramp = number if begins or last is None else last.ramp
    used = _ready_step(state, ramp, now)
    # once it is shown that the new system is not worse, no old rows are needed any more
    finished = not begins and (
        bool(last is not None and last.decision.get("finished")) or state.stop.is_finished(state)
    )
    shares: dict[str, float] = {}
    for name, limit in state.given.limits.items():
        shares[name] = _share_of(state, name, limit, used, ramp, finished)
    share, reason = min(shares.values()), ""
    absolute = not all(each.is_relative for each in state.given.limits.values())
    if absolute and not state.given.old and _old_rows(state) is None:
        share, reason = 0.0, "the first step collects rows of the old system"
    if not begins and last is not None and last.level > 0:
        limited = grown(share, last.level, state.given.growth, GROWTH_STEP)
        reason = reason or ("growth is limited" if limited < share else "")
        share = limited
    if state.standing is not None:
        share, reason = 0.0, f"alarm {state.standing} stood when the step began"
    return {
        "number": number,
        "level": float(share),
        "before": state.rows.size,
        "cleared": state.cleared,
        "ramp": ramp,
        "decision": {"shares": shares, "used": used, "reason": reason, "finished": finished},
    }


def old_risk(state: State, name: str) -> float | None:
    """A bound on the old system's expected loss over the bound; None if nothing is known."""
    limit = state.given.limits[name]
    if name in state.given.old:
        return state.given.old[name].risk(limit.bound) / limit.bound
    rows = _old_rows(state)
    if rows is None:
        return None
    losses = _scaled(state, name, rows, unknown=1.0)
    return (float(losses.sum()) + 1) / (len(losses) + 1)


def _share_of(
    state: State, name: str, limit: Guardrail, used: int, ramp: int, finished: bool
) -> float:
    """The share that one guardrail allows."""
    rows = state.of_unit(used) if used else slice(0, 0)
    new = state.kept(rows, NEW)
    if limit.is_relative:
        old = _scaled(state, name, state.kept(rows, OLD), unknown=0.0)
        mine = _scaled(state, name, new, unknown=1.0)
        counts = len(mine), float(mine.sum()), len(old), float(old.sum())
        found = relative_share(*counts, limit.delta / limit.bound, limit.ratio)
        return 1.0 if finished else min(found, LARGEST_RELATIVE)
    old_loss, tolerated = old_risk(state, name), (limit.tolerated or 0.0) / limit.bound
    if old_loss is None:
        return 0.0
    losses = _scaled(state, name, new, unknown=1.0)
    if not state.given.sticky:
        return fresh_share(losses, old_loss, tolerated)
    low = _low(state, used, ramp)
    inside = state.rows["position"][new] < np.uint64(min(int(low * 2.0**64), 2**64 - 1))
    return sticky_share(losses[inside], losses[~inside], low, old_loss, tolerated)


def _low(state: State, used: int, ramp: int) -> float:
    """The smaller of the shares of the step that is used and the one before it in the ramp."""
    if used <= ramp:
        return 0.0
    return min(state.units[used - 1].level, state.units[used - 2].level)


def _ready_step(state: State, ramp: int, now: int) -> int:
    """The last step of the ramp whose outcomes are in, or due; 0 if there is none."""
    settings = state.given
    for number in range(len(state.units), ramp - 1, -1):
        unit = state.units[number - 1]
        if unit.level <= 0:
            continue
        if settings.outcome_deadline is None:
            return number
        rows = state.kept(state.of_unit(number), NEW)
        end = state.units[number].begun if number < len(state.units) else now
        known = all(not np.isnan(state.loss(name)[rows]).any() for name in settings.limits)
        if known or now - end >= settings.outcome_deadline * MICROSECONDS:
            return number
    return 0


def _old_rows(state: State) -> Integers | None:
    """The rows of the old system in the first step; None if there are none."""
    for unit in state.units:
        if unit.level == 0 and unit.decision.get("reason", "").startswith("the first step"):
            rows = state.kept(state.of_unit(unit.number), OLD)
            return rows if len(rows) and unit.number < len(state.units) + 1 else None
    return None


def _collects_old_rows(state: State, unit: Unit) -> bool:
    return unit.decision.get("reason", "").startswith("the first step")


def _fewest_old_rows(state: State, unit: Unit) -> int:
    """How many outcomes of the old system are known, of the guardrail with the fewest."""
    rows = state.kept(state.of_unit(unit.number), OLD)
    counts = [int((~np.isnan(state.loss(name)[rows])).sum()) for name in state.given.limits]
    return min(counts)


def _scaled(state: State, name: str, rows: Integers, unknown: float) -> Floats:
    losses = state.loss(name)[rows] / state.given.limits[name].bound
    return np.where(np.isnan(losses), unknown, losses)


def describe(settings: Settings) -> str:
    """How long a step is, in words."""
    if settings.units_per_step is not None:
        return f"{settings.units_per_step} keys"
    if settings.step_seconds is not None:
        return f"{settings.step_seconds:g} s"
    return "by hand"
