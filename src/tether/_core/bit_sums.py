"""Sums of the bits of numbers: whether two passes read the same values, in whatever order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def sum_paired_bits(first: ArrayLike, second: ArrayLike) -> int:
    """The products of the spread bits of pairs of numbers, added modulo 2⁶⁴.

    Other pairs of the same numbers have another sum, up to chance.

    Examples
    --------
    >>> sum_paired_bits([0.0, 1.0], [0.5, 2.0]) == sum_paired_bits([1.0, 0.0], [2.0, 0.5])
    True
    >>> sum_paired_bits([0.0, 1.0], [0.5, 2.0]) == sum_paired_bits([0.0, 1.0], [2.0, 0.5])
    False
    """
    return int((_spread(first) * _spread(second)).sum(dtype=np.uint64))


def _spread(values: ArrayLike) -> NDArray[np.uint64]:
    """The bits of doubles, of which round numbers have the leading ones only."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    return np.asarray(bits ^ (bits >> np.uint64(32)))
