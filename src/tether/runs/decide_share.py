"""The share of the next step of a release: a pure function of the state.

The release itself and verification call the same function. Data are the units of the last step: of
a step by keys the first so many, of one by time those until its end, and of one by hand all. An
outcome that is not known counts as the worst loss for the new system, and as none for the old one.

A step that has its units waits for their outcomes before the next one begins: until all are known,
or the outcome deadline has passed, or without one for a tenth of its length. That is harmless
however delays depend on losses: at any time the share is at most what all outcomes would give.

A person who tightens a guardrail may have seen losses, so the rows of the present step are left out
then: the next share rests on the rows of the present one, and is not larger.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tether._core.arrays import Floats, Integers
from tether.runs.keys import NEW, OLD, is_below
from tether.runs.shares import (
    LARGEST_RELATIVE,
    Guardrail,
    confident_share,
    grown,
    relative_share,
    relative_sticky_share,
    sticky_share,
    upper_bound,
)
from tether.runs.state import MICROSECONDS, State, Unit

SETTLING = 0.1
"""Without an outcome deadline, a step waits for so much of its length for outcomes."""
COLLECTING = "the first step collects rows of the old system"
NOT_SHOWN = "the old system alone is not shown to be within what is tolerated"


def is_over(state: State, now: int) -> bool:
    """Whether the present step has ended by itself, or a person's act ends it."""
    last = state.last
    if last is None or state.standing is not None or state.raises is not None:
        return False
    if state.cleared > last.cleared or is_tightened(state, last):
        return True
    if not _has_lasted(state, last, now, 1.0):
        return False
    rows = _needed_rows(state, last)
    known = [~np.isnan(state.loss(name)[rows]) for name in state.given.limits]
    if is_collecting(last) and min(int(each.sum()) for each in known) == 0:
        return False
    return all(each.all() for each in known) or _has_settled(state, last, now)


def is_tightened(state: State, last: Unit) -> bool:
    """Whether a person has tightened something in this step, which ends it unless it collects."""
    return state.tightened > last.event and not is_collecting(last)


def is_collecting(unit: Unit) -> bool:
    """Whether a step has a share of 0 to collect rows of the old system."""
    return bool(unit.decision.get("reason") == COLLECTING)


def decide_share(state: State, now: int) -> dict[str, Any]:
    """The header of the next `round` event: the share, and what it rests on."""
    last, number, limits = state.last, len(state.units) + 1, state.given.limits
    ramp, used, most, finished = number, 0, 1.0, False
    if last is not None and last.cleared != state.cleared:
        last = None  # a new ramp begins
    if last is not None:
        ramp, used, finished = last.ramp, last.number, bool(last.decision["finished"])
        if is_tightened(state, last):
            used = int(last.decision["used"])
            most, finished = last.level, False
        # once it is shown that the new system is not worse, no old rows are needed any more
        finished = finished or state.stop.is_finished(state)
    shares = {
        name: 1.0 if finished and limit.is_relative else _share_of(state, name, used, ramp, now)
        for name, limit in limits.items()
    }
    reason = ""
    if any(old_risk(state, name) is None for name, each in limits.items() if not each.is_relative):
        reason = COLLECTING  # their shares are 0
    elif min(shares.values()) == 0:
        reason = NOT_SHOWN
    promises = {name: _promised(state, name, limit) for name, limit in limits.items()}
    share, reason = limited_share(state, min(shares.values()), last, reason)
    decision = {"shares": shares, "used": used, "reason": reason}
    decision |= {"finished": finished, "promises": promises}
    return {"level": min(share, most), "decision": decision, "ramp": ramp}


def limited_share(state: State, share: float, last: Unit | None, reason: str) -> tuple[float, str]:
    """The share after the limit on growth since the `last` step of the ramp; 0 after an alarm."""
    if state.standing is not None:
        return 0.0, f"alarm {state.standing} stood when the step began"
    if last is not None and last.level > 0:
        most = grown(share, last.level, state.given.growth)
        return most, "growth is limited" if most < share else reason
    return share, reason


# ---- the share of one guardrail -----------------------------------------------------------------


def _share_of(state: State, name: str, used: int, ramp: int, now: int) -> float:
    """The share that one guardrail allows, from the rows of the step that is used."""
    settings, limit, low = state.given, state.given.limits[name], 0.0
    if settings.sticky and used > ramp:
        low = min(state.units[used - 1].level, state.units[used - 2].level)
    rows = used_rows(state, used) if used else slice(0, 0)
    new = state.kept(rows, NEW)
    inside = is_below(state.rows["position"][new], low)
    if limit.is_relative:
        found, rule = LARGEST_RELATIVE, (limit.delta / limit.bound, limit.ratio)
        old = state.kept(rows, OLD)
        old = old[state.rows["calibration"][old]]
        halved = (state.rows["position"][old] & np.uint64(1) == 0) & (low > 0)
        for silence in (1.0, 0.0):
            mine = scaled(state, name, new, 1.0, silence, now)
            theirs = scaled(state, name, old, 0.0, silence, now)
            within = relative_share(mine[inside], theirs[halved], *rule)
            beyond = relative_share(mine[~inside], theirs[~halved], *rule)
            found = min(found, relative_sticky_share(within, beyond, low))
        return found
    number, error = len(state.units) + 1, None
    if settings.confidence is not None:  # the errors of all bounds of all steps add up
        bounds = 3 * len(settings.limits) * number * (number + 1)
        error = (1 - settings.confidence) / bounds
    old_loss, tolerated = old_risk(state, name, error), (limit.tolerated or 0.0) / limit.bound
    if old_loss is None:
        return 0.0
    losses = scaled(state, name, new, unknown=1.0)
    given = losses[inside], losses[~inside], low, old_loss, tolerated
    return sticky_share(*given) if error is None else confident_share(*given, error)


def old_risk(state: State, name: str, error: float | None = None) -> float | None:
    """A bound on the old system's expected loss over the bound; None if nothing is known."""
    limit, given = state.given.limits[name], state.given.old.get(name)
    if given is not None and given.declared is not None:
        return given.declared / limit.bound
    if given is not None:
        count, total = given.rows, given.total / limit.bound
        losses = np.repeat([1.0, 0.0], [math.ceil(total), count - math.ceil(total)])
    else:  # the first step that collected rows of the old system
        steps = (state.of_unit(unit.number) for unit in state.units if is_collecting(unit))
        rows = next(filter(len, (state.kept(step, OLD) for step in steps)), None)
        if rows is None:
            return None
        losses = scaled(state, name, rows, unknown=1.0)
        count, total = len(losses), float(losses.sum())
    return (total + 1) / (count + 1) if error is None else upper_bound(losses, error)


def _promised(state: State, name: str, limit: Guardrail) -> float:
    """What the expected loss is promised to be; of a relative guardrail, above the old system's."""
    if not limit.is_relative:
        return float(limit.tolerated or 0.0)
    known = state.loss(name)[state.kept(slice(0, state.rows.size), OLD)]
    known = known[~np.isnan(known)]
    return limit.delta + limit.ratio * (float(known.mean()) if len(known) else 0.0)


# ---- which rows ---------------------------------------------------------------------------------


def used_rows(state: State, number: int) -> slice:
    """The rows of a step that decide: their number does not depend on their losses."""
    rows, settings = state.of_unit(number), state.given
    if settings.units_per_step is not None:
        return slice(rows.start, min(rows.stop, rows.start + settings.units_per_step))
    if settings.step_seconds is not None:
        end = state.units[number - 1].since + int(settings.step_seconds * MICROSECONDS)
        at = state.rows["at"][rows]
        count = max(int(np.searchsorted(at, end)), min(_least_units(state, number), len(at)))
        return slice(rows.start, rows.start + count)
    return rows


def _has_lasted(state: State, last: Unit, now: int, times: float) -> bool:
    """Whether the present step has had so many times its length; never one by hand."""
    settings, count = state.given, state.rows.size - last.before
    if settings.units_per_step is not None:
        return count >= math.ceil(times * settings.units_per_step)
    if settings.step_seconds is None or count < max(1, _least_units(state, last.number)):
        return False
    return now - last.since >= times * settings.step_seconds * MICROSECONDS


def _least_units(state: State, number: int) -> int:
    """A step by time goes on until it has half as many units as the one before it in the ramp."""
    if number <= state.units[number - 1].ramp:
        return 0
    end = state.units[number - 2].since + int((state.given.step_seconds or 0) * MICROSECONDS)
    return int(np.searchsorted(state.rows["at"][state.of_unit(number - 1)], end)) // 2


def _has_settled(state: State, last: Unit, now: int) -> bool:
    """Whether outcomes that are still missing are not waited for any more."""
    deadline = state.given.outcome_deadline
    if deadline is None:
        return _has_lasted(state, last, now, 1 + SETTLING)
    newest = int(state.rows["at"][used_rows(state, last.number).stop - 1])
    return now - newest >= int(deadline * MICROSECONDS)


def _needed_rows(state: State, last: Unit) -> Integers:
    """The rows of the present step whose outcomes the next share rests on."""
    rows = used_rows(state, last.number)
    if is_collecting(last):
        return state.kept(rows, OLD)
    relative = any(each.is_relative for each in state.given.limits.values())
    return state.kept(rows, None if relative else NEW)


def scaled(
    state: State,
    name: str,
    rows: Integers,
    unknown: float,
    silence: float | None = None,
    now: int = 0,
) -> Floats:
    """Losses over their bound; what is not known as `unknown`, or as `silence` if it is overdue."""
    losses = state.loss(name)[rows] / state.given.limits[name].bound
    filled = np.full(len(rows), unknown)
    deadline = state.given.outcome_deadline
    if silence is not None and deadline is not None:
        overdue = state.rows["at"][rows] <= now - int(deadline * MICROSECONDS)
        filled[overdue] = silence
    return np.where(np.isnan(losses), filled, losses)
