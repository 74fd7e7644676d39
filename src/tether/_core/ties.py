"""The comparison of a risk with its limit, in which ties pass.

Risks are compared with alpha as sums, never as quotients, and a tie passes: (10·0.23 + 1)/11 is
0.30000000000000004 in floating point and would fail an alpha of 0.3, which it meets.

Two ties happen by construction rather than by chance, and rounding must not decide them. Losses and
alpha may be round numbers, so that the sums are equal and a condition holds by exactly the
tolerance. And a policy at which all of the tolerance was used may become the reference of the next
calibration on the same rows, so that the condition holds there by exactly zero.
"""

from __future__ import annotations

from typing import Any

TIE_TOLERANCE = 1e-10
"""The relative tolerance: far above rounding error, far below any difference that matters."""


def within_limit(sums: Any, limit: Any) -> Any:
    """Whether sums of non-negative terms are at most a non-negative limit, up to rounding.

    >>> 10 * 0.23 + 1 <= 0.3 * 11, within_limit(10 * 0.23 + 1, 0.3 * 11)
    (False, True)
    """
    return sums <= limit * (1 + TIE_TOLERANCE)


SUM_ROUNDING = 1e-11
"""The relative rounding error of sums that are compared; a tenth of the tolerance."""
LEAST_SLACK = 1e-13
"""By how much, relatively, a condition passes that holds by zero up to rounding."""


def without_rounding(excess: float, below: float) -> float:
    """P − N of a condition P ≤ N, of which N = `below` contains the tolerance, if it is a tie.

    A tie of the sums without the tolerance passes by exactly the tolerance, one of the sums with it
    by `LEAST_SLACK`: hundreds of calibrations, each on the rows of the last, use it up. Anything
    else is returned as it is.

    >>> f"{without_rounding(-3.0000001e-10, 3.0):.6g}, {without_rounding(2e-16, 3.0):.6g}"
    '-3e-10, -3e-13'
    >>> without_rounding(0.1, 3.0)
    0.1
    """
    tolerated = below * TIE_TOLERANCE / (1 + TIE_TOLERANCE)
    if abs(excess + tolerated) <= SUM_ROUNDING * below:
        return -tolerated
    if abs(excess) <= SUM_ROUNDING * below:
        return -LEAST_SLACK * below
    return excess


def raised_by_tie(excess: float, below: float) -> float:
    """By which share N must be raised so that a tie, of sums with the tolerance, passes; else 0.

    >>> raised_by_tie(2e-16, 3.0) > LEAST_SLACK, raised_by_tie(-1e-9, 3.0)
    (True, 0.0)
    """
    if not abs(excess) < SUM_ROUNDING * below:
        return 0.0
    return (excess - without_rounding(excess, below)) / below


def limit_if_tied(value: float, limit: float, tolerance: float) -> float:
    """The value, or the limit where only rounding has carried the value past it.

    >>> limit_if_tied(0.30000000000000004, 0.3, 1e-6), limit_if_tied(0.31, 0.3, 1e-6)
    (0.3, 0.31)
    """
    return limit if limit < value <= limit * (1 + tolerance) else value
