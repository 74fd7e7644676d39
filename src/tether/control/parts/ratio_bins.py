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

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats, Integers

BINS_PER_UNIT = 256
"""How many coarse bins there are per unit of log ratio."""
FINE_BINS = 4096
"""Into how many parts a fine table divides a bin at most."""
LARGEST_BINNED_RATIO = float(1 << 30)
"""Log ratios of a larger size are refused."""
POWER_DIGITS = 8
"""Powers of two by which amounts are grouped: 2^8."""
LOWEST_POWER, HIGHEST_POWER = -2000, 2000
"""Amounts below 2^(8·lowest) count as zero, and above 2^(8·highest) they are refused."""
UPPER_DIGITS, LOWER_DIGITS = 20, 26
"""The binary digits after the point that each of two integers adds to an amount in [1, 256)."""
UPPER_SCALE, LOWER_SCALE = float(1 << UPPER_DIGITS), float(1 << LOWER_DIGITS)
UNIT_DIGITS = UPPER_DIGITS + LOWER_DIGITS
"""The binary digits after the point of these integers together."""
PLAIN_POWER = 100
"""Below this size of a power p, 2^(8·p) is a float."""
LOG_POWER = POWER_DIGITS * float(np.log(2.0))


@dataclass(frozen=True)
class Bins:
    """Where a ratio is counted: in coarse bins, or in parts of given intervals [left, right)."""

    left: Floats | None = None
    right: Floats | None = None
    parts: int = FINE_BINS

    def place(self, ratio: Floats) -> tuple[Integers, NDArray[np.bool_] | None]:
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
    Σ|amount|·e^(ratio − right edge).
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
    def negative(self) -> NDArray[np.bool_]:
        """Whether the amounts of each row of the table are negative."""
        return (self.key & 1).astype(bool)

    def merge(self, other: BinTable) -> BinTable:
        """The table of both."""
        if np.array_equal(self.key, other.key):
            return BinTable(self.key, self.count + other.count, self.digits + other.digits)
        key, place = np.unique(np.concatenate((self.key, other.key)), return_inverse=True)
        count = np.zeros(len(key), dtype=np.int64)
        digits = np.zeros((len(key), 4), dtype=np.int64)
        own, others = place[: len(self.key)], place[len(self.key) :]
        count[own], digits[own] = self.count, self.digits
        count[others] += other.count
        digits[others] += other.digits
        return BinTable(key, count, digits)

    def of_bins(self, chosen: NDArray[np.bool_]) -> BinTable:
        """The rows of the table that are chosen."""
        return BinTable(self.key[chosen], self.count[chosen], self.digits[chosen])


EMPTY_TABLE = BinTable(
    np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, 4), dtype=np.int64)
)


def bin_terms(bins: Bins, ratio: Floats, amount: Floats, log_base: Floats | None) -> BinTable:
    """The table of terms with amounts amount·e^log_base; those of zero are left out."""
    used = (amount != 0) & (ratio > -np.inf)
    if not used.all():
        ratio, amount = ratio[used], amount[used]
        log_base = None if log_base is None else log_base[used]
    if not len(ratio):
        return EMPTY_TABLE
    _refuse_large(ratio)
    number, inside = bins.place(ratio)
    if inside is not None:
        ratio, amount = ratio[inside], amount[inside]
        log_base = None if log_base is None else log_base[inside]
        if not len(ratio):
            return EMPTY_TABLE
    power, scaled = _powers(np.abs(amount), log_base)
    key, place = _keys(number, power, amount < 0)
    rising = scaled * np.exp(ratio - bins.edges(number)[1])
    count = np.bincount(place, minlength=len(key))
    digits = [
        np.bincount(place, half, len(key)).astype(np.int64)
        for values in (scaled, rising)
        for half in _halves(values)
    ]
    table = BinTable(key, count, np.stack(digits, axis=1))
    return table if count.all() else table.of_bins(count > 0)


def _keys(
    number: Integers, power: Integers, negative: NDArray[np.bool_]
) -> tuple[Integers, Integers]:
    """Keys of bin, power and sign, perhaps with some that do not occur, and the place of each."""
    first, lowest = int(number.min()), int(power.min())
    several = int(power.max()) - lowest + 1
    total = (int(number.max()) - first + 1) * several * 2
    if total > max(1 << 16, 8 * len(number)):
        return np.unique(_key(number, power, negative), return_inverse=True)
    place = ((number - first) * several + (power - lowest)) * 2 + negative
    cell = np.arange(total)
    rest, sign = cell >> 1, cell & 1
    return _key(first + rest // several, lowest + rest % several, sign), place


def _key(number: Integers, power: Integers, negative: Integers | NDArray[np.bool_]) -> Integers:
    return np.asarray((number << 13) + ((power + 2048) << 1) + negative)


def _numbered(key: Integers) -> tuple[Integers, Integers]:
    """The distinct keys, perhaps with some that do not occur, and the place of each key."""
    low, high = int(key.min()), int(key.max())
    if high - low <= max(1 << 16, 8 * len(key)):
        return np.arange(low, high + 1), key - low
    return np.unique(key, return_inverse=True)


def _halves(values: Floats) -> tuple[Floats, Floats]:
    """Numbers below 256 as two integers."""
    scaled = values * UPPER_SCALE
    upper = np.floor(scaled)
    scaled -= upper
    scaled *= LOWER_SCALE
    return upper, np.rint(scaled, out=scaled)


def _powers(size: Floats, log_base: Floats | None) -> tuple[Integers, Floats]:
    """Sizes times e^log_base as m·2^(8·p), with m in [1, 256)."""
    shift: Integers | int = 0
    if log_base is not None:
        steps = np.floor(log_base / LOG_POWER)
        size = size * np.exp(log_base - steps * LOG_POWER)
        shift = np.clip(steps, 4 * LOWEST_POWER, 4 * HIGHEST_POWER).astype(np.int64)
    lowest, highest = ((int(np.frexp(end)[1]) - 1) >> 3 for end in (size.min(), size.max()))
    if lowest == highest and log_base is None and abs(lowest) < PLAIN_POWER:
        # All sizes have the same power, as the losses of most logs do.
        return np.full(len(size), lowest), size * 2.0 ** (-POWER_DIGITS * lowest)
    mantissa, exponent = np.frexp(size)
    power = (exponent.astype(np.int64) - 1) >> 3
    scaled = np.ldexp(mantissa, (exponent - (power << 3)).astype(np.int32))
    power = power + shift
    if power.max() > HIGHEST_POWER:
        raise ValueError(
            "safe over mixture density is larger than e^11000 in a row: check log_safe and log_mix"
        )
    low = power < LOWEST_POWER
    if low.any():
        scaled, power = np.where(low, 0.0, scaled), np.maximum(power, LOWEST_POWER)
    return power, scaled


def _refuse_large(ratio: Floats) -> None:
    if max(-float(ratio.min()), float(ratio.max())) > LARGEST_BINNED_RATIO:  # −inf was left out
        row = int(np.argmax(np.abs(ratio)))
        raise ValueError(
            f"log_optimized - log_safe is {ratio[row]:g} in a row: a log that is read in parts may "
            f"have log ratios of up to {LARGEST_BINNED_RATIO:g}"
        )


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
    _refuse_large(ratio)
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
