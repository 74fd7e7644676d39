"""Axes of beta: round values as ticks on a logarithmic scale, and what counts as near beta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tether.report.number_format import format_beta

NEAR_BETA = math.log(2)
"""How far the neighborhood of beta extends on either side, in log beta: from half to twice beta."""
MAX_BETA_TICKS = 6
MIN_HALF_RANGE = 0.7
"""The axis of log beta extends at least this far on either side of its middle."""

LABEL_ROOM = 0.95
"""How far the places of 0 and infinity are from the next tick, relative to half of the range."""


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


def share_ticks(low: float, high: float) -> dict[float, str]:
    """Shares of the optimized policy in a mix between two logs of beta, which is their odds."""
    shares = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
    ticks = {math.log(share / (1 - share)): f"{100 * share:g} %" for share in shares}
    return {tick: text for tick, text in ticks.items() if low - 0.2 <= tick <= high + 0.2}


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
