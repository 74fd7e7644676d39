"""The first crossing of a function, found with a certificate.

`between(left, right)` bounds a function F from above on an interval; at left = right it is F. An
interval is certified when its bound is not positive, and split in two when it is. An interval that
is too narrow to be split passes when F does at its right end, so that F may stay at zero over any
length: there no bound can certify it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

MIN_INTERVAL = 1e-3
"""Narrower intervals of log beta are not split: F changes by less than 0.003 inside one."""
MAX_INTERVALS = 32_768
"""The most intervals that are examined before the search stops with what is certified."""
ROOT_TOLERANCE = 1e-12
"""How closely the crossing itself is located, in log beta."""

Between = Callable[[float, float], float]


def first_crossing(between: Between, points: Sequence[float]) -> float | None:
    """The largest t with F ≤ 0 at every smaller one from the first point on; None if all pass.

    F must be at most zero at the first point. The points between the first and the last divide the
    range at the start; a true bound needs none of them. After `MAX_INTERVALS` intervals the search
    returns the end of what is certified so far, which may be less than the crossing.
    """
    pending = list(pairwise(points))[::-1]
    examined = 0
    while pending:
        left, right = pending.pop()
        examined += 1
        if right - left <= MIN_INTERVAL:
            if (at_right := between(right, right)) > 0:
                return _locate_root(between, left, between(left, left), right, at_right)
        elif between(left, right) > 0:
            if examined > MAX_INTERVALS:
                return left
            middle = (left + right) / 2
            pending += [(middle, right), (left, middle)]
    return None


def _locate_root(
    between: Between, left: float, at_left: float, right: float, at_right: float
) -> float:
    """The root between a passing and a failing point, from the passing side (Illinois method).

    An end that stays while the other one moves twice counts half, so that both come close. Every
    fourth step halves the interval, whatever the function does.
    """
    if at_left > 0:  # the crossing is the end of the interval before
        return left
    moved, steps = 0, 0
    while right - left > (tolerance := ROOT_TOLERANCE * max(1.0, abs(left))):
        steps += 1
        finite = -float("inf") < at_left < at_right < float("inf")
        share = -at_left / (at_right - at_left) if finite and steps % 4 else 0.5
        # A root at one of the ends is enclosed by a point just inside.
        margin = tolerance / 2
        middle = min(max(left + (right - left) * share, left + margin), right - margin)
        if not left < middle < right:
            break
        value = between(middle, middle)
        if value > 0:
            right, at_right = middle, value
            at_left *= 0.5 if moved > 0 else 1.0
            moved = 1
        else:
            left, at_left = middle, value
            at_right *= 0.5 if moved < 0 else 1.0
            moved = -1
    return left
