"""Axes of beta: round values as ticks on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tether._core.arrays import Floats
from tether.report.number_format import format_beta

MAX_BETA_TICKS = 6
MIN_HALF_RANGE = 0.7
"""The axis of log beta extends at least this far on either side of its middle."""

LABEL_ROOM = 0.95
"""How far the places of 0 and infinity are from the next tick, relative to half of the range."""


SMALL_CHANGE = 1e-3
"""Where a risk changes by less than this share of its range, its curve is not shown."""


def changing_range(log_betas: Floats, risks: Floats) -> tuple[float, float]:
    """The ends of the part of a curve in which the risk changes."""
    finite = np.isfinite(log_betas)
    x, y = log_betas[finite], risks[finite]
    steps = np.abs(np.diff(y)) > SMALL_CHANGE * (np.ptp(y) or 1.0) if len(y) else np.zeros(0)
    inside = np.flatnonzero(steps)
    if not len(inside):
        return -1.0, 1.0
    return float(x[inside[0]]), float(x[inside[-1] + 1])


class BetaScale(NamedTuple):
    """Betas on an axis: their heights, its ticks and its limits."""

    heights: list[float]
    ticks: dict[float, str]
    limits: tuple[float, float]


def beta_ticks(low: float, high: float, most: int = MAX_BETA_TICKS) -> dict[float, str]:
    """Round betas between two logs: powers of ten, with 2 and 5 (or 3) where there is room."""
    for leading_digits in ((1, 2, 5), (1, 3), (1,)):
        exponents = range(math.floor(low / math.log(10)) - 1, math.ceil(high / math.log(10)) + 1)
        ticks = [
            math.log(digit) + exponent * math.log(10)
            for exponent in exponents
            for digit in leading_digits
        ]
        ticks = [tick for tick in ticks if low - 0.2 <= tick <= high + 0.2]
        if len(ticks) <= most:
            break
    ticks = ticks[:: math.ceil(len(ticks) / most) or 1]
    return {tick: format_beta(tick) for tick in ticks}


def beta_scale(log_betas: Sequence[float]) -> BetaScale:
    """Place betas on a logarithmic axis, with separate places for 0 and infinity."""
    finite = [log_beta for log_beta in log_betas if math.isfinite(log_beta)]
    low = min(finite, default=-MIN_HALF_RANGE)
    high = max(finite, default=MIN_HALF_RANGE)
    middle, half_range = (low + high) / 2, max((high - low) / 2, MIN_HALF_RANGE)
    low, high, step = middle - half_range, middle + half_range, 0.45 * half_range
    zero, infinity = -math.inf in log_betas, math.inf in log_betas
    room = LABEL_ROOM * half_range - step
    most = MAX_BETA_TICKS // 2 if zero or infinity else MAX_BETA_TICKS
    ends = low + room * zero, high - room * infinity
    ticks = beta_ticks(*ends, most)
    for is_named, end, side in ((zero, ends[0], -1), (infinity, ends[1], 1)):
        if is_named:  # no tick comes nearer to the label of 0 or infinity
            ticks = {tick: text for tick, text in ticks.items() if side * (tick - end) <= 0}
    if not ticks and finite:
        ticks = {middle: format_beta(middle)}
    bottom, top = low - 0.5 * step, high + 0.5 * step
    if zero:
        ticks[low - step], bottom = "0 (safe)", low - 1.5 * step
    if infinity:
        ticks[high + step], top = "∞ (optimized)", high + 1.5 * step
    heights = [min(max(log_beta, low - step), high + step) for log_beta in log_betas]
    return BetaScale(heights, ticks, (bottom, top))
