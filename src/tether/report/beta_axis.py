"""Axes of beta: round values as ticks on a logarithmic scale, and what counts as near beta."""

from __future__ import annotations

import math

from tether.report.number_format import format_beta

NEAR_BETA = math.log(2)
"""How far the neighborhood of beta extends on either side, in log beta: from half to twice beta."""
MAX_BETA_TICKS = 6


def beta_ticks(low: float, high: float) -> dict[float, str]:
    """Round betas between two logs: powers of ten, with 2 and 5 (or 3) where there is room."""
    for leading_digits in ((1, 2, 5), (1, 3), (1,)):
        exponents = range(math.floor(low / math.log(10)) - 1, math.ceil(high / math.log(10)) + 1)
        ticks = [
            math.log(digit) + exponent * math.log(10)
            for exponent in exponents
            for digit in leading_digits
        ]
        ticks = [tick for tick in ticks if low - 0.2 <= tick <= high + 0.2]
        if len(ticks) <= MAX_BETA_TICKS:
            break
    ticks = ticks[:: math.ceil(len(ticks) / MAX_BETA_TICKS) or 1]
    return {tick: format_beta(tick) for tick in ticks}
