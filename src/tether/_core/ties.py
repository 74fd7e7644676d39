"""The one comparison on which every guarantee hangs.

Risk is compared with alpha as sums, never as quotients, and a tie is a pass: (10·0.12 + 1)/11 is
0.20000000000000004 in floating point and would fail an alpha of 0.2 that it meets. `TOLERANCE` is
the relative slack of the comparison, far above rounding and far below anything a user can notice.
"""

from __future__ import annotations

from typing import Any

TOLERANCE = 1e-10


def at_most(sums: Any, limit: Any) -> Any:
    """Whether sums of non-negative terms stay within a non-negative limit, ties included.

    >>> at_most((10 * 0.12 + 1), 0.2 * 11)
    True
    """
    return sums <= limit * (1 + TOLERANCE)
