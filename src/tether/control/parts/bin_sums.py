"""Terms added in bins of log ratio, as integers: how a `BinTable` is made.

Rows are taken in blocks that stay in the processor's cache. Within a bin, Σ|a|·e^(ratio − right
edge) is Σ|a| − Σ|a|·(1 − e^(ratio − right edge)). The second sum is below 1/256 of the first, so
that an integer of 64 bits holds it without being split, and the exponential is a short polynomial.

Numbers are rounded to integers by adding a power of two whose last binary digit is the unit: the
last digits of the float are then the integer, and are added as they are.
"""

from __future__ import annotations

import numpy as np

from tether._core.kernels import merge_all
from tether._core.types import Booleans, Floats, Integers
from tether.control.parts.ratio_bins import (
    LOG_POWER,
    LOWER_DIGITS,
    LOWER_SCALE,
    POWER_DIGITS,
    UNIT_DIGITS,
    UPPER_DIGITS,
    UPPER_SCALE,
    Bins,
    BinTable,
    carried,
    finite_ends,
    row_key,
)

ROWS_PER_TABLE = 1 << 15
"""How many rows are taken at once where a table of its own is made from them."""
MOST_ADDED = 1 << 17
"""How many integers below 2^46 are added before their sum is split."""
MANTISSA_DIGITS = 52
"""The binary digits of a float after the first: those of 2^52 + k, for k below 2^52, are k."""
TO_UNITS = 2.0 ** (MANTISSA_DIGITS - UNIT_DIGITS)
"""Added to a number below it, this leaves `UNIT_DIGITS` binary digits after the point."""
TO_UPPER = 2.0 ** (MANTISSA_DIGITS - UPPER_DIGITS)
"""The same for `UPPER_DIGITS`."""
BITS_OF_UNITS, BITS_OF_UPPER = np.array([TO_UNITS, TO_UPPER]).view(np.int64).tolist()
"""What the bits of such a number are more than its digits."""
COUNT_DIGIT = 44
"""The binary digit from which on rows are counted: above the sum of `MOST_ADDED` lower digits."""
MOST_PLACES = 1 << 16
"""How many places a table may have for keys that do not occur, unless there are many rows."""
LOWEST_POWER, HIGHEST_POWER = -2000, 2000
"""Amounts below 2^(8·lowest) count as zero, and above 2^(8·highest) they are refused."""
PLAIN_POWER = 100
"""Below this size of a power p, 2^(8·p) is a float."""

EMPTY_TABLE = BinTable(
    np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, 4), dtype=np.int64)
)


def bin_terms(bins: Bins, ratio: Floats, amount: Floats, log_base: Floats | None) -> BinTable:
    """The table of terms with amounts amount·e^log_base; those of zero are left out."""
    blocks = (
        slice(start, start + ROWS_PER_TABLE) for start in range(0, len(ratio), ROWS_PER_TABLE)
    )
    tables = (
        _table(bins, ratio[rows], amount[rows], None if log_base is None else log_base[rows])
        for rows in blocks
    )
    return merge_all(tables) or EMPTY_TABLE


def less_than_one(y: Floats) -> Floats:
    """1 − e^−y for 0 ≤ y ≤ 1/256: its series up to y^5, which is off by at most 5e-18."""
    found = y * (1 / 120)
    for coefficient in (-1 / 24, 1 / 6, -1 / 2, 1.0):
        found += coefficient
        found *= y
    return found


class Sums:
    """How many rows each place has, and the sum of numbers below 1, in units of 2^-46."""

    def __init__(self, places: int) -> None:
        self.count = np.zeros(places, dtype=np.int64)
        self._split_count, self._sum = np.zeros((2, places), dtype=np.int64)
        self._halves = np.zeros((places, 2), dtype=np.int64)
        self._added = 0

    def add(self, place: Integers, values: Floats) -> None:
        """Add at most `MOST_ADDED` values, which are rounded in place."""
        if self._added + len(values) > MOST_ADDED:
            self._split()
        self.count += np.bincount(place, minlength=len(self.count))
        values += TO_UNITS
        np.add.at(self._sum, place, values.view(np.int64))
        self._added += len(values)

    def table(self, used: Integers, key: Integers, flat: Integers) -> BinTable:
        """The table of the places that are used, given their keys and the digits of Σ|amount|."""
        self._split()
        digits = np.concatenate((flat, flat - self._halves[used]), axis=1)
        return BinTable(key, self.count[used], carried(digits))

    def _split(self) -> None:
        self._sum -= (self.count - self._split_count) * BITS_OF_UNITS  # modulo 2^64
        self._halves[:, 0] += self._sum >> LOWER_DIGITS
        self._halves[:, 1] += self._sum & ((1 << LOWER_DIGITS) - 1)
        self._split_count[:] = self.count
        self._sum[:] = 0
        self._added = 0


class AmountSums:
    """How many rows each place has, the sums of their amounts, and of numbers below 1.

    Amounts are below 256, and rounded to units of 2^-46. Each is the sum of a multiple of 2^-20 and
    of at most 2^-21. The latter, in units, are added together with the count, in one integer.
    """

    def __init__(self, places: int) -> None:
        self._count = np.zeros(places, dtype=np.int64)
        self._digits = np.zeros((4, places), dtype=np.int64)
        self._less, self._lower, self._upper = np.zeros((3, places), dtype=np.int64)
        self._added = 0

    def add(self, place: Integers, less: Floats, amount: Floats) -> None:
        """Add at most `MOST_ADDED` numbers and amounts; both are overwritten."""
        if self._added + len(less) > MOST_ADDED:
            self._split()
        less += TO_UNITS
        np.add.at(self._less, place, less.view(np.int64))
        upper = np.add(amount, TO_UPPER, out=less)
        np.add.at(self._upper, place, upper.view(np.int64))
        upper -= TO_UPPER
        amount -= upper
        amount += TO_UNITS + 2.0 ** (COUNT_DIGIT - UNIT_DIGITS)
        lower = amount.view(np.int64)
        lower &= (1 << MANTISSA_DIGITS) - 1
        np.add.at(self._lower, place, lower)
        self._added += len(less)

    def finished(self) -> tuple[Integers, Integers, Integers]:
        """The places that are used, their counts, and the digits of a table."""
        self._split()
        used = np.flatnonzero(self._count)
        digits = self._digits.T[used]
        digits[:, 2:] = digits[:, :2] - digits[:, 2:]
        return used, self._count[used], carried(digits)

    def _split(self) -> None:
        half = 1 << (COUNT_DIGIT - 1)  # the sum of lower digits may be negative
        count = (self._lower + half) >> COUNT_DIGIT
        self._count += count
        self._less -= count * BITS_OF_UNITS  # modulo 2^64
        self._digits[0] += self._upper - count * BITS_OF_UPPER
        self._digits[1] += self._lower - (count << COUNT_DIGIT)
        self._digits[2] += self._less >> LOWER_DIGITS
        self._digits[3] += self._less & ((1 << LOWER_DIGITS) - 1)
        for each in (self._less, self._lower, self._upper):
            each[:] = 0
        self._added = 0


def _table(bins: Bins, ratio: Floats, amount: Floats, log_base: Floats | None) -> BinTable:
    """The table of one block of terms."""
    used = (amount != 0) & (ratio > -np.inf)
    if not used.all():
        ratio, amount = ratio[used], amount[used]
        log_base = None if log_base is None else log_base[used]
    if not len(ratio):
        return EMPTY_TABLE
    finite_ends(ratio)
    number, inside = bins.place(ratio)
    if inside is not None:
        ratio, amount = ratio[inside], amount[inside]
        log_base = None if log_base is None else log_base[inside]
        if not len(ratio):
            return EMPTY_TABLE
    power, scaled = _powers(np.abs(amount), log_base)
    key, place = _keys(number, power, amount < 0)
    less = less_than_one(bins.edges(number)[1] - ratio)
    less *= scaled
    sums = Sums(len(key))
    sums.add(place, less)
    used = np.flatnonzero(sums.count)
    flat = [np.bincount(place, half, len(key))[used].astype(np.int64) for half in halves(scaled)]
    return sums.table(used, key[used], np.stack(flat, axis=1))


def _keys(number: Integers, power: Integers, negative: Booleans) -> tuple[Integers, Integers]:
    """Keys of bin, power and sign, perhaps with some that do not occur, and the place of each."""
    first, lowest = int(number.min()), int(power.min())
    several = int(power.max()) - lowest + 1
    total = (int(number.max()) - first + 1) * several * 2
    if total > max(MOST_PLACES, 8 * len(number)):
        return np.unique(row_key(number, power, negative), return_inverse=True)
    place = ((number - first) * several + (power - lowest)) * 2 + negative
    cell = np.arange(total)
    rest, sign = cell >> 1, cell & 1
    return row_key(first + rest // several, lowest + rest % several, sign), place


def halves(values: Floats) -> tuple[Floats, Floats]:
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
