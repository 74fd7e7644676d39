"""The first crossing of a function that cannot change fast.

Let P and N be the positive and negative part of the condition, and F = log P − log N: it passes
where F ≤ 0. If each weight moves by at most K·|Δ log β| in log, so do log P and log N. Between two
points at distance d then F is at most their mean plus K·d: the interval is certified when that is
not positive, and split in two when it is. This is valid for every family with a known smoothness.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

RESOLUTION = 1e-3
"""Narrower intervals of log beta are not split: inside, P exceeds N by at most e^(K·this)."""
EXACT = 1e-12
"""How closely the crossing itself is pinned down, in log beta."""


def first_crossing(
    excess: Callable[[float], float], slope: float, lo: float, hi: float
) -> float | None:
    """The largest t in [lo, hi] with `excess` ≤ 0 at every smaller one; None if all of them pass.

    `excess(lo)` must not be positive. `slope` is K above.
    """
    pending = [(lo, excess(lo), hi, excess(hi))]
    while pending:
        left, at_left, right, at_right = pending.pop()
        width = right - left
        if (at_left + at_right) / 2 + slope * width <= 0:
            continue
        if width > RESOLUTION:
            middle = (left + right) / 2
            at_middle = excess(middle)
            pending.append((middle, at_middle, right, at_right))
            pending.append((left, at_left, middle, at_middle))
        elif at_right > 0:
            return _pin_down(excess, left, at_left, right, at_right)
    return None


def _pin_down(
    excess: Callable[[float], float], left: float, at_left: float, right: float, at_right: float
) -> float:
    """The root between a passing and a failing point, from the passing side (Illinois method)."""
    while right - left > EXACT * max(1.0, abs(left)):
        finite = at_left > -float("inf") and at_right < float("inf") and at_right > at_left
        share = -at_left / (at_right - at_left) if finite else 0.5
        # A step that keeps both ends moving: never closer to an end than a hundredth of the way.
        middle = left + (right - left) * min(max(share, 0.01), 0.99)
        if not left < middle < right:
            break
        value = excess(middle)
        if value > 0:
            right, at_right = middle, value
            at_left /= 2
        else:
            left, at_left = middle, value
            at_right /= 2
    return left


def measured_slope(
    excess: Callable[[float], float], lo: float, hi: float, points: int = 129
) -> float:
    """A stand-in for K where a family states none: the steepest change of F on a grid.

    F changes at most 2K times as fast as log beta, so this is twice the least K that could be.
    """
    grid = np.linspace(lo, hi, points)
    with np.errstate(invalid="ignore"):
        change = np.abs(np.diff([excess(point) for point in grid]))
    steepest = np.max(change, initial=0.0, where=np.isfinite(change))
    return float(steepest * (points - 1) / max(hi - lo, 1e-12))
