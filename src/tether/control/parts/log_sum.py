"""Sums of exponentials that merge in any order to the same bits.

A term e^v is written as m·2^n with m in [1, 2). Terms with the same n are added as integers: the 52
binary digits of m after the point, in two halves. So a sum does not depend on the order of its
terms, whatever their size, and none overflows. Terms below 2^−WINDOW of the largest are left out:
no float of the result can tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats

WINDOW = 512
"""How many powers of two below the largest term are kept."""
HALF_DIGITS = 26
"""The binary digits of each of the two integers that make a mantissa."""
TERMS_IN_CACHE = 1 << 13
"""How many terms are taken at once, so that they stay in the processor's cache."""
HALF = float(1 << HALF_DIGITS)
LEADING_DIGITS = 64
"""How many binary digits of a sum its logarithm is taken of."""
LOG_TWO = math.log(2.0)


@dataclass(frozen=True)
class LogSum:
    """Integer sums of mantissas by power of two, from the power `first` on.

    >>> terms = np.array([0.0, -800.0, 3.0, 3.0])
    >>> one = LogSum.of(terms[:1]).merge(LogSum.of(terms[1:]))
    >>> other = LogSum.of(terms[2:]).merge(LogSum.of(terms[:2]))
    >>> one.log == other.log, round(one.log, 6)
    (True, 3.717736)
    """

    first: int
    digits: NDArray[np.int64]
    """One row per power of two: the sums of the upper and of the lower halves."""

    @classmethod
    def of(cls, logs: Floats) -> LogSum:
        """The sum of the exponentials of logs; −inf is zero."""
        top = float(logs.max(initial=-np.inf))
        if top == -np.inf:
            return EMPTY_SUM
        first = math.floor(top / LOG_TWO) - WINDOW + 1
        digits = np.zeros((WINDOW, 2))
        for start in range(0, len(logs), TERMS_IN_CACHE):
            _add(digits, logs[start : start + TERMS_IN_CACHE], first)
        used = int(np.argmax(digits.any(axis=1)))
        return cls(first + used, digits[used:].astype(np.int64))

    def merge(self, other: LogSum) -> LogSum:
        """The sum of both."""
        if not len(self.digits) or not len(other.digits):
            return self if len(self.digits) else other
        last = max(self.first + len(self.digits), other.first + len(other.digits))
        first = max(min(self.first, other.first), last - 2 * WINDOW)
        digits = np.zeros((last - first, 2), dtype=np.int64)
        for part in (self, other):
            skipped = max(first - part.first, 0)
            kept = part.digits[skipped:]
            start = part.first + skipped - first
            digits[start : start + len(kept)] += kept
        return LogSum(first, digits)

    @property
    def log(self) -> float:
        """The log of the sum; −inf if it is zero."""
        total: int = sum(
            ((upper << HALF_DIGITS) + lower) << power
            for power, (upper, lower) in enumerate(self.digits.tolist())
            if upper or lower
        )
        if not total:
            return -math.inf
        # The leading digits alone: they are the same whether or not tiny terms were left out.
        spare = total.bit_length() - LEADING_DIGITS
        leading = total >> spare if spare > 0 else total << -spare
        return math.log(leading) + (self.first - 2 * HALF_DIGITS + spare) * LOG_TWO


def _add(digits: Floats, logs: Floats, first: int) -> None:
    """Add the halves of the mantissas of some terms, as integers, by their power of two."""
    power = np.floor(logs / LOG_TWO)
    if power.min() < first:
        kept = power >= first
        logs, power = logs[kept], power[kept]
    mantissa = np.exp(logs - power * LOG_TWO)
    place = (power - first).astype(np.int64)
    mantissa *= HALF
    upper = np.floor(mantissa)
    mantissa -= upper
    mantissa *= HALF
    digits[:, 0] += np.bincount(place, upper, WINDOW)
    digits[:, 1] += np.bincount(place, np.floor(mantissa, out=mantissa), WINDOW)


EMPTY_SUM = LogSum(0, np.zeros((0, 2), dtype=np.int64))


@dataclass(frozen=True)
class LogSums:
    """Several sums, one per name or place."""

    each: tuple[LogSum, ...]

    @classmethod
    def of(cls, terms: Iterable[Floats]) -> LogSums:
        """One sum of each array; arrays that are made one by one need not be held together."""
        return cls(tuple(LogSum.of(logs) for logs in terms))

    def merge(self, other: LogSums) -> LogSums:
        """Merge them one by one."""
        pairs = zip(self.each, other.each, strict=True)
        return LogSums(tuple(first.merge(second) for first, second in pairs))

    @property
    def logs(self) -> Floats:
        """The log of each sum."""
        return np.array([each.log for each in self.each])
