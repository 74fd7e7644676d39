"""Sums of the bits of numbers: whether two passes read the same values, in whatever order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

MODULUS = 1 << 64
"""Sums of bits are kept modulo this."""
PAIRS_IN_CACHE = 1 << 13
"""How many pairs are multiplied at once, so that they stay in the processor's cache."""
LEADING_BITS = 52
"""The digits of a double after the point, behind its sign and exponent."""


def sum_bits(values: ArrayLike) -> int:
    """The bits of each number as a double, read as an integer, and added modulo 2⁶⁴.

    Examples
    --------
    >>> sum_bits([0.5, 2.0]) == sum_bits([2.0, 0.5])
    True
    """
    plain = np.ascontiguousarray(values, dtype=np.float64)
    return int(plain.view(np.uint64).sum(dtype=np.uint64))


def sum_paired_bits(first: ArrayLike, second: ArrayLike) -> int:
    """The products of the bits of pairs of numbers, added modulo 2⁶⁴.

    Other pairs of the same numbers have another sum, up to chance.

    Examples
    --------
    >>> sum_paired_bits([0.0, 1.0], [0.5, 2.0]) == sum_paired_bits([1.0, 0.0], [2.0, 0.5])
    True
    >>> sum_paired_bits([0.0, 1.0], [0.5, 2.0]) == sum_paired_bits([0.0, 1.0], [2.0, 0.5])
    False
    """
    one, other = (
        np.ascontiguousarray(values, dtype=np.float64).view(np.uint64) for values in (first, second)
    )
    total = 0
    for start in range(0, len(one), PAIRS_IN_CACHE):
        bits = one[start : start + PAIRS_IN_CACHE]
        # Round numbers have leading bits only, which a product modulo 2⁶⁴ would lose.
        spread = bits ^ (bits >> np.uint64(LEADING_BITS))
        total += int(np.dot(spread, other[start : start + PAIRS_IN_CACHE]))
    return total % MODULUS
