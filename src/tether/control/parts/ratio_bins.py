"""Sums of the terms of the condition in bins of log ratio: a small table that merges exactly.

A term has a log ratio and a signed amount. In each bin the table has, for each sign, the sums of
|amount| and of |amount|·e^(ratio − right edge). Amounts are written as m·2^(8·p) with m in
[1, 256), and terms of the same bin, power p and sign are added as integers: any order of the rows
gives the same bits, and no common scale has to be known beforehand.

Bins are multiples of a power of two, by `floor`. Coarse bins cover all ratios; fine ones divide
some of the coarse bins into equal parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Booleans, Floats, Integers

Number = TypeVar("Number", np.int64, np.uint64)

BINS_PER_UNIT = 256
"""How many coarse bins there are per unit of log ratio."""
FINE_BINS = 4096
"""Into how many parts a fine table divides a bin at most."""
LARGEST_BINNED_RATIO = float(1 << 30)
"""Log ratios of a larger size are refused."""
POWER_DIGITS = 8
"""Powers of two by which amounts are grouped: 2^8."""
UPPER_DIGITS, LOWER_DIGITS = 20, 26
"""The binary digits after the point that each of two integers adds to an amount in [1, 256)."""
UPPER_SCALE, LOWER_SCALE = float(1 << UPPER_DIGITS), float(1 << LOWER_DIGITS)
UNIT_DIGITS = UPPER_DIGITS + LOWER_DIGITS
"""The binary digits after the point of these integers together."""
LOG_POWER = POWER_DIGITS * float(np.log(2.0))


@dataclass(frozen=True)
class Bins:
    """Where a ratio is counted: in coarse bins, or in parts of given intervals [left, right)."""

    left: Floats | None = None
    right: Floats | None = None
    parts: int = FINE_BINS

    def place(self, ratio: Floats) -> tuple[Integers, Booleans | None]:
        """The number of the bin of each ratio, and which ratios lie in a bin at all."""
        if self.left is None or self.right is None:
            return np.floor(ratio * BINS_PER_UNIT).astype(np.int64), None
        k = np.maximum(np.searchsorted(self.left, ratio, side="right") - 1, 0)
        inside = (ratio >= self.left[k]) & (ratio < self.right[k])
        k = k[inside]
        width = (self.right[k] - self.left[k]) / self.parts
        part = np.floor((ratio[inside] - self.left[k]) / width).astype(np.int64)
        return k * self.parts + np.minimum(part, self.parts - 1), inside

    def edges(self, number: Integers) -> tuple[Floats, Floats]:
        """The left and the right edge of bins."""
        if self.left is None or self.right is None:
            return number / BINS_PER_UNIT, (number + 1) / BINS_PER_UNIT
        k, part = number // self.parts, number % self.parts
        width = (self.right[k] - self.left[k]) / self.parts
        return self.left[k] + part * width, self.left[k] + (part + 1) * width


def fine_parts(left: Floats, right: Floats) -> int:
    """Into how many parts bins can be divided that floats still tell apart: a power of two."""
    resolution = 4 * np.spacing(np.maximum(np.abs(left), np.abs(right)))
    most = float(((right - left) / resolution).min())
    return min(FINE_BINS, 1 << int(np.log2(most))) if most >= 1 else 1


@dataclass(frozen=True)
class BinTable:
    """One row per bin, power and sign that occurs: how many terms, and the digits of two sums.

    The columns of `digits` are the upper and lower digits of Σ|amount|, and those of
    Σ|amount|·e^(ratio − right edge), the lower ones in [0, 2^26). Keys are in order.
    """

    key: Integers
    count: Integers
    digits: NDArray[np.int64]

    @property
    def bin(self) -> Integers:
        """The number of the bin of each row of the table."""
        return self.key >> 13

    @property
    def power(self) -> Integers:
        """The power p of each row of the table."""
        return ((self.key >> 1) & 4095) - 2048

    @property
    def negative(self) -> Booleans:
        """Whether the amounts of each row of the table are negative."""
        return (self.key & 1).astype(bool)

    def merge(self, other: BinTable) -> BinTable:
        """The table of both."""
        if np.array_equal(self.key, other.key):
            return BinTable(self.key, self.count + other.count, carried(self.digits + other.digits))
        both = np.concatenate((self.key, other.key))
        order = both.argsort(kind="stable")  # two runs, in linear time
        key = both[order]
        new = np.append(True, key[1:] != key[:-1])[: len(key)]
        following = np.append(order[1:], 0)[: len(key)]
        second = np.where(np.append(new[1:], True)[: len(key)], len(both), following)[new]

        def added(own: Integers, others: Integers) -> Integers:
            rows = np.concatenate((own, others, np.zeros((1, *own.shape[1:]), dtype=np.int64)))
            return np.asarray(rows.take(order[new], axis=0) + rows.take(second, axis=0))

        count = added(self.count, other.count)
        return BinTable(key[new], count, carried(added(self.digits, other.digits)))

    def of_bins(self, chosen: Booleans) -> BinTable:
        """The rows of the table that are chosen."""
        return BinTable(self.key[chosen], self.count[chosen], self.digits[chosen])


def carried(digits: Integers) -> Integers:
    """The same sums, with lower digits in their range: one way to write each sum."""
    for upper in (0, 2):
        digits[:, upper] += digits[:, upper + 1] >> LOWER_DIGITS
        digits[:, upper + 1] &= (1 << LOWER_DIGITS) - 1
    return digits


def union(first: NDArray[Number], second: NDArray[Number]) -> NDArray[Number]:
    """The distinct numbers of two sorted arrays, in order: a merge of two runs, in linear time."""
    both = np.sort(np.concatenate((first, second)), kind="stable")
    return both[np.append(True, both[1:] != both[:-1])] if len(both) else both


def row_key(number: Integers, power: Integers, negative: Integers | Booleans) -> Integers:
    """The key of rows of a table, by bin, power and sign."""
    return np.asarray((number << 13) + ((power + 2048) << 1) + negative)


def _numbered(key: Integers) -> tuple[Integers, Integers]:
    """The distinct keys, perhaps with some that do not occur, and the place of each key."""
    low, high = int(key.min()), int(key.max())
    if high - low <= max(1 << 16, 8 * len(key)):
        return np.arange(low, high + 1), key - low
    return np.unique(key, return_inverse=True)


def finite_ends(ratio: Floats) -> tuple[float, float]:
    """The smallest and the largest of finite ratios; those that no bin can hold are refused."""
    low, high = float(ratio.min()), float(ratio.max())
    if max(-low, high) > LARGEST_BINNED_RATIO:
        row = int(np.argmax(np.abs(ratio)))
        raise ValueError(
            f"log_optimized - log_safe is {ratio[row]:g} in a row: a log that is read in parts may "
            f"have log ratios of up to {LARGEST_BINNED_RATIO:g}"
        )
    return low, high


@dataclass(frozen=True)
class TopTable:
    """The largest log base, and the largest log base + log ratio, of the candidates in each bin."""

    number: Integers
    count: Integers
    base: Floats
    rising: Floats

    def merge(self, other: TopTable) -> TopTable:
        """The table of both."""
        number, place = np.unique(np.concatenate((self.number, other.number)), return_inverse=True)
        count = np.zeros(len(number), dtype=np.int64)
        base, rising = np.full(len(number), -np.inf), np.full(len(number), -np.inf)
        own, others = place[: len(self.number)], place[len(self.number) :]
        count[own], base[own], rising[own] = self.count, self.base, self.rising
        count[others] += other.count
        base[others] = np.maximum(base[others], other.base)
        rising[others] = np.maximum(rising[others], other.rising)
        return TopTable(number, count, base, rising)


NO_TOPS = TopTable(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), *np.zeros((2, 0)))


def bin_tops(bins: Bins, ratio: Floats, log_base: Floats) -> TopTable:
    """The table of candidates of the test weight with finite ratios."""
    used = np.isfinite(ratio) & (log_base > -np.inf)
    ratio, log_base = ratio[used], log_base[used]
    if not len(ratio):
        return NO_TOPS
    finite_ends(ratio)
    number, inside = bins.place(ratio)
    if inside is not None:
        ratio, log_base = ratio[inside], log_base[inside]
        if not len(ratio):
            return NO_TOPS
    key, place = _numbered(number)
    count = np.bincount(place, minlength=len(key))
    base, rising = np.full(len(key), -np.inf), np.full(len(key), -np.inf)
    np.maximum.at(base, place, log_base)
    np.maximum.at(rising, place, log_base + ratio)
    kept = count > 0
    return TopTable(key[kept], count[kept], base[kept], rising[kept])
