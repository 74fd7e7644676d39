"""The comparison of a risk with its limit, in which ties pass.

Risks are compared with alpha as sums, never as quotients, and a tie passes: (10·0.23 + 1)/11 is
0.30000000000000004 in floating point and would fail an alpha of 0.3, which it meets.
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


def without_rounding(value: float, limit: float, tolerance: float) -> float:
    """The value, or the limit where only rounding has carried the value past it.

    >>> without_rounding(0.30000000000000004, 0.3, 1e-6), without_rounding(0.31, 0.3, 1e-6)
    (0.3, 0.31)
    """
    return limit if limit < value <= limit * (1 + tolerance) else value
