"""The share of the next step of a ramp of policies: a pure function of the state.

Every action is answered by the reference policy or by the new one, by a coin; so all rows are fresh
and the simple theorem of `tether.runs.shares` holds. The new policy's rows are those of a window of
steps, training rows too, since the policy was fixed before. A window is used until the steps after
it have a quarter of its rows; until then the share it allows stays as it is, so that the number of
rows of the next window does not depend on their losses.

The safe policy's rows are the calibration rows of the last rounds without a policy, since the new
policy may have learned from training rows. That it is within what is tolerated is assumed. Of
another reference it has to be shown, by an upper bound from all rows that it took since it reached
a share of 1; where that does not pass, the safe policy is used (docs/explanation/release.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.arrays import Integers
from tether.runs.decide_share import limited_share, scaled
from tether.runs.keys import NEW
from tether.runs.shares import fresh_share, upper_bound
from tether.runs.state import SAFE, State

REFERENCE_ERROR = 0.05
"""How often the bound on the risk of a reference that is not the safe policy may fail."""
LEAST_PART_OF_WINDOW = 0.25
"""A window is replaced once the steps after it have this part of its rows."""


def is_ramp_over(state: State) -> bool:
    """Whether the next step of the present policy is due."""
    last, length = state.last, state.given.units_per_step
    if last is None or last.policy is None or state.standing is not None:
        return False
    if state.cleared > last.cleared:
        return True
    return length is not None and state.rows.size - last.before >= length


def decide_ramp(state: State, policy: str | None, *, begins: bool) -> dict[str, Any]:
    """The header of the next round: the first step of a policy, its next one, or the safe one."""
    last, number = state.last, len(state.units) + 1
    header: dict[str, Any] = {"ramp": number, "policy": policy, "reference": SAFE}
    if policy is None:
        return header | {"level": 0.0, "decision": {"reason": "no policy was given"}}
    if begins or last is None or last.cleared != state.cleared:
        last, window = None, (0, -1)
        header["reference"] = _find_reference(state)
    else:
        header |= {"ramp": last.ramp, "reference": last.reference}
        window = tuple(last.decision["window"])
        fresh = max(last.ramp, window[1] + 1), number - 1
        least = LEAST_PART_OF_WINDOW * len(_new_rows(state, *window))
        window = fresh if len(_new_rows(state, *fresh)) >= least else window
    old = _old_rows(state, header["reference"], header["ramp"])
    shares = _shares(state, header["reference"], old, _new_rows(state, *window))
    reason = ""
    if not min(shares.values()):
        reason = "the reference policy alone is not shown to be within what is tolerated"
        reason = reason if len(old) else "there are no rows of the reference policy yet"
        reason += ": the safe policy serves"
    promises = {name: limit.tolerated for name, limit in state.given.limits.items()}
    share, reason = limited_share(state, min(shares.values()), last, reason)
    decision = {"shares": shares, "window": list(window), "reason": reason, "promises": promises}
    return header | {"level": share, "decision": decision}


def _shares(state: State, reference: int, old: Integers, new: Integers) -> dict[str, float]:
    """The share that each loss allows; one that is not known counts as the worst."""
    shares = {}
    for name, limit in state.given.limits.items():
        known, losses = (scaled(state, name, rows, unknown=1.0) for rows in (old, new))
        risk = (float(known.sum()) + 1) / (len(known) + 1)
        if reference != SAFE:
            risk = upper_bound(known, REFERENCE_ERROR / len(state.given.limits))
        tolerated = (limit.tolerated or 0.0) / limit.bound
        shares[name] = float(fresh_share(losses, risk, tolerated)) if len(known) else 0.0
    return shares


def _new_rows(state: State, first: int, last: int) -> Integers:
    if last < first:
        return np.zeros(0, np.int64)
    rows = slice(state.of_unit(first).start, state.of_unit(last).stop)
    return state.kept(rows, NEW)


def _old_rows(state: State, reference: int, ramp: int) -> Integers:
    """Rows of the reference; of the safe policy calibration rows alone."""
    if reference != SAFE:
        own = state.units[reference - 1].ramp
        return _new_rows(state, reference, max(u.number for u in state.units if u.ramp == own))
    found: list[Integers] = []
    for unit in reversed(state.units[: ramp - 1]):
        if unit.policy is None:
            found.append(state.kept(state.of_unit(unit.number), 0))
        elif found:
            break
    rows = np.concatenate(found) if found else np.zeros(0, np.int64)
    return np.asarray(rows[state.rows["calibration"][rows]])


def _find_reference(state: State) -> int:
    """With "last" the last policy that reached a share of 1, if it passes; else the safe policy."""
    found = SAFE
    for unit in state.units:
        if unit.policy is None or unit.cleared != state.cleared:
            found = SAFE
        elif unit.level == 1.0 and (found == SAFE or state.units[found - 1].ramp != unit.ramp):
            found = unit.number
    if state.given.against == "safe" or found == SAFE:
        return SAFE
    shares = _shares(state, found, _old_rows(state, found, found), np.zeros(0, np.int64))
    return found if min(shares.values()) > 0 else SAFE
