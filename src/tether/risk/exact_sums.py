"""Sums of losses in integers, which are the same bits in whatever order they are added.

A loss is a multiple of 2^-52 of its bound, rounded; such a number is held as two integers of 26
bits, so that sums of 2^36 of them stay exact in 64 bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._core.types import Floats, Integers

HALF_BITS = 26
"""The bits of each of the two integers."""
HALF_MASK = (1 << HALF_BITS) - 1
"""The lower of the two, as a mask."""


class ExactSums(NamedTuple):
    """Sums as integers: `high` in units of 2^-26, and `low` in units of 2^-52."""

    high: Integers
    low: Integers

    @classmethod
    def by_key(cls, keys: Integers, values: Floats, count: int) -> ExactSums:
        """Sums of values in [−1, 1] for each of `count` keys.

        >>> ExactSums.by_key(np.array([0, 1, 0]), np.array([0.5, 0.25, 0.125]), 2).as_floats()
        array([0.625, 0.25 ])
        """
        units = np.rint(values * 2.0 ** (2 * HALF_BITS)).astype(np.int64)
        # Sums of fewer than 2^27 integers of 26 bits are exact in floats, which bincount adds.
        high = np.bincount(keys, weights=units >> HALF_BITS, minlength=count)
        low = np.bincount(keys, weights=units & HALF_MASK, minlength=count)
        return cls(high.astype(np.int64), low.astype(np.int64))

    @classmethod
    def total(cls, values: Floats) -> ExactSums:
        """The sum of all values, as arrays of length one."""
        return cls.by_key(np.zeros(len(values), dtype=np.int64), values, 1)

    def added(self, other: ExactSums) -> ExactSums:
        """The sums of both."""
        return ExactSums(self.high + other.high, self.low + other.low)

    def gathered(self, places: Integers, count: int) -> ExactSums:
        """Add up the sums that have the same place among `count`."""
        high, low = np.zeros((2, count), dtype=np.int64)
        np.add.at(high, places, self.high)
        np.add.at(low, places, self.low)
        return ExactSums(high, low)

    def running(self, start: ExactSums) -> ExactSums:
        """Running sums, with the start in front."""
        high = np.concatenate([start.high, start.high + np.cumsum(self.high)])
        return ExactSums(high, np.concatenate([start.low, start.low + np.cumsum(self.low)]))

    def as_floats(self) -> Floats:
        """The sums as floats, rounded once."""
        carried = self.high + (self.low >> HALF_BITS)
        rest = (self.low & HALF_MASK) * 2.0 ** (-2 * HALF_BITS)
        return np.asarray(carried * 2.0**-HALF_BITS + rest)
