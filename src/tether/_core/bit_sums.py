"""Sums of the bits of numbers: whether two passes read the same values, in whatever order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

MODULUS = 1 << 64
"""Sums of bits are kept modulo this."""


def sum_bits(values: ArrayLike) -> int:
    """The bits of each number as a double, read as an integer, and added modulo 2⁶⁴.

    Examples
    --------
    >>> sum_bits([0.5, 2.0]) == sum_bits([2.0, 0.5])
    True
    """
    plain = np.ascontiguousarray(values, dtype=np.float64)
    return int(plain.view(np.uint64).sum(dtype=np.uint64))
