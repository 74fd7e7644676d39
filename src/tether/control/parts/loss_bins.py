"""Rows of a log without a mixture in coarse bins: the table that the first pass makes.

It holds the sums of `bin_terms`, made faster. The amount of a row is its loss minus alpha, so all
amounts lie between a unit in the last place of alpha and the bound, and the few powers of 256 that
can occur are known beforehand. Rows are taken in blocks that stay in the processor's cache. What a
row adds depends on its own values alone: parts merge to the same bits, whichever way is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tether._core.types import Booleans, Floats, Integers
from tether.control.constraint import Constraint
from tether.control.parts.bin_sums import (
    EMPTY_TABLE,
    MANTISSA_DIGITS,
    MOST_PLACES,
    AmountSums,
    Sums,
    halves,
    less_than_one,
)
from tether.control.parts.ratio_bins import (
    BINS_PER_UNIT,
    LARGEST_BINNED_RATIO,
    POWER_DIGITS,
    BinTable,
    finite_ends,
    row_key,
)
from tether.control.parts.rows import Range, value_range

ROWS_IN_CACHE = 1 << 15
"""How many rows are taken at once."""
FEW_SMALLER = 1 / 8
"""Up to which share of the rows of a block have a lower power than the highest in most logs."""
ROWS_LOOKED_AT = 1 << 8
"""How many rows are looked at before all of them are, for a loss that is neither extreme."""
LEAST_POWER = -127
"""The lowest power of 256 whose inverse is a float."""
NO_LOGS = (-np.inf, -np.inf)


def bin_losses(
    constraint: Constraint,
    ratio: Floats,
    loss: Floats,
    ratio_range: Range | None = None,
    loss_range: Range | None = None,
) -> tuple[BinTable, tuple[float, float]]:
    """The table of rows with finite ratios, and logs of the largest amounts of either sign.

    The smallest and the largest of all ratios and losses may be given, where they are known.
    """
    ratio_range = ratio_range or value_range(ratio)
    loss_range = loss_range or value_range(loss)
    if ratio_range[0] == -np.inf:
        finite = ratio > -np.inf
        ratio, loss = ratio[finite], loss[finite]
        if not len(ratio):
            return EMPTY_TABLE, NO_LOGS
        ratio_range, loss_range = value_range(ratio), value_range(loss)
    powers = Powers.of(constraint)
    ends = np.array(loss_range)
    amounts = constraint.signed(ends)
    if (second := _which_of_two(loss, loss_range)) is not None:
        kind, scaled = powers.kinds(amounts)
        if kind[0] != kind[1] or ends[0] == ends[1]:
            blocks = _Blocks.of(ratio, ratio_range, 2)
            return _two_amounts(powers, blocks, second, kind, scaled), largest_logs(amounts)
    # With factors that change elsewhere than at alpha, amounts do not grow with the loss.
    grows = constraint.ratio_error == 1 or constraint.split in (None, constraint.alpha)
    logs = largest_logs(amounts if grows else constraint.signed(loss))
    blocks = _Blocks.of(ratio, ratio_range, 2 * len(powers))
    return _any_amounts(constraint, powers, blocks, loss), logs


def _which_of_two(loss: Floats, ends: Range) -> Booleans | None:
    """Which losses are the largest, if all others are the smallest; None otherwise."""
    first = loss[:ROWS_LOOKED_AT]
    if ((first != ends[0]) & (first != ends[1])).any():
        return None
    second = loss == ends[1]
    both = np.count_nonzero(second) + np.count_nonzero(loss == ends[0])
    return second if both >= len(loss) else None


@dataclass(frozen=True)
class Powers:
    """The powers of 256 by which the amounts of a constraint are grouped.

    Smaller amounts count in the lowest. Its unit is below that in the last place of alpha, so that
    every loss other than alpha has an amount, rounded to 2^-54 of alpha or less.
    """

    lowest: int
    highest: int

    @classmethod
    def of(cls, constraint: Constraint) -> Powers:
        """From one below that of alpha to that of the largest amount."""
        error = constraint.ratio_error
        lowest = max(_power(constraint.alpha / error) - 1, LEAST_POWER)
        largest = max(constraint.bound - constraint.alpha, constraint.alpha)
        return cls(lowest, max(_power(largest * error), lowest))

    def kinds(self, amount: Floats) -> tuple[Integers, Floats]:
        """Twice the power above the lowest, plus one if negative; and the size over its power."""
        kind = (amount < 0).astype(np.int64)  # `take` is slow with shorter integers
        size = np.abs(amount)
        for power in range(self.lowest + 1, self.highest + 1):
            kind += (size >= 2.0 ** (POWER_DIGITS * power)) * np.int64(2)
        size *= self._units.take(kind)
        return kind, size

    @cached_property
    def _units(self) -> Floats:
        """What a size of each kind is multiplied by."""
        powers = np.arange(self.lowest, self.highest + 1).repeat(2)
        return np.asarray(2.0 ** (-POWER_DIGITS * powers))

    def keys(self, number: Integers, kind: Integers) -> Integers:
        """The keys of bins and kinds."""
        return row_key(number, self.lowest + (kind >> 1), kind & 1)

    def __len__(self) -> int:
        return self.highest - self.lowest + 1


def _power(size: float) -> int:
    return (math.frexp(size)[1] - 1) // POWER_DIGITS


@dataclass(frozen=True)
class _Blocks:
    """Blocks of rows: the place of each row's bin, and 1 − e^(ratio − right edge).

    The bin `numbers[i]` has the places from i·kinds on.
    """

    ratio: Floats
    kinds: int
    numbers: Integers
    index: Integers | None

    @classmethod
    def of(cls, ratio: Floats, ratio_range: Range, kinds: int) -> _Blocks:
        """All bins between the first and the last, or those that occur if this is too many."""
        if max(-ratio_range[0], ratio_range[1]) > LARGEST_BINNED_RATIO:
            finite_ends(ratio)  # an error that names the ratio
        low, high = (math.floor(end * BINS_PER_UNIT) for end in ratio_range)
        if kinds * (high - low + 1) <= max(MOST_PLACES, 8 * len(ratio)):
            return cls(ratio, kinds, np.arange(low, high + 1), None)
        number = np.floor(ratio * BINS_PER_UNIT).astype(np.int64)
        return cls(ratio, kinds, *np.unique(number, return_inverse=True))

    def places(self, kind: int) -> Iterator[tuple[slice, Integers, Floats]]:
        """The blocks, with the places of one kind."""
        shift = 2.0**MANTISSA_DIGITS + (kind - int(self.numbers[0]) * self.kinds)
        for start in range(0, len(self.ratio), ROWS_IN_CACHE):
            rows = slice(start, start + ROWS_IN_CACHE)
            units = self.ratio[rows] * BINS_PER_UNIT
            number = np.floor(units)
            units -= number
            np.subtract(1.0, units, out=units)
            units *= 1 / BINS_PER_UNIT
            if self.index is None:
                number *= self.kinds
                number += shift
                place = number.view(np.int64)
                place &= (1 << MANTISSA_DIGITS) - 1
            else:
                place = self.index[rows] * self.kinds + kind
            yield rows, place, less_than_one(units)


def _two_amounts(
    powers: Powers, blocks: _Blocks, second: Booleans, kind: Integers, scaled: Floats
) -> BinTable:
    """The table of rows that have one of two amounts: Σ|amount| is a count times the amount."""
    order = np.argsort(kind)  # so that keys come in order
    sums = Sums(2 * len(blocks.numbers))
    for rows, place, less in blocks.places(0):
        own = second[rows].astype(np.int64)
        less *= scaled.take(own)
        place += own if order[0] == 0 else 1 - own
        sums.add(place, less)
    used = np.flatnonzero(sums.count)
    own = order[used & 1]
    if not scaled.all():
        used, own = used[scaled[own] > 0], own[scaled[own] > 0]
    keys = powers.keys(blocks.numbers[used >> 1], kind[own])
    amounts = np.stack(halves(scaled), axis=1).astype(np.int64)
    return sums.table(used, keys, sums.count[used, None] * amounts[own])


def _any_amounts(constraint: Constraint, powers: Powers, blocks: _Blocks, loss: Floats) -> BinTable:
    """The table of rows with amounts of any size, most of which have the highest power."""
    least, unit = (2.0 ** (sign * POWER_DIGITS * powers.highest) for sign in (1, -1))
    highest = blocks.kinds - 2
    sums = AmountSums(blocks.kinds * len(blocks.numbers))
    for rows, place, less in blocks.places(highest):
        amount = constraint.signed(loss[rows])
        size = np.abs(amount)
        smaller = np.flatnonzero(size < least)
        few = len(smaller) <= FEW_SMALLER * len(size)
        kind, scaled = powers.kinds(amount[smaller] if few else amount)
        if few:
            size *= unit
            size[smaller] = scaled
            place -= amount.view(np.int64) >> 63  # one more if negative
            place[smaller] += (kind & ~1) - highest
        else:
            size = scaled
            place += kind - highest
        if not scaled.all():
            used = np.flatnonzero(amount)
            place, less, size = place[used], less[used], size[used]
        less *= size
        sums.add(place, less, size)
    used, counts, digits = sums.finished()
    keys = powers.keys(blocks.numbers[used // blocks.kinds], used % blocks.kinds)
    return BinTable(keys, counts, digits)


def largest_logs(amount: Floats) -> tuple[float, float]:
    """Logs of the largest positive and of the largest negative amount; −inf if there is none."""
    with np.errstate(divide="ignore"):
        high, low = np.log([max(amount.max(), 0.0), max(-amount.min(), 0.0)])
    return float(high), float(low)
