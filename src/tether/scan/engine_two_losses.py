"""The table of bins of a log whose losses are all zero or the bound, made by an engine.

The losses of most logs are so. Then all rows of a bin with the same loss have the same amount, and
one sum per bin is enough: how far e^(ratio − right edge) is below one, as an integer.
"""

from __future__ import annotations

import math
from typing import Any

import narwhals as nw
import numpy as np

from tether.control.constraint import Constraint
from tether.control.parts.ratio_bins import (
    BINS_PER_UNIT,
    POWER_DIGITS,
    UNIT_DIGITS,
    BinTable,
    halves,
    row_key,
)
from tether.scan.engine_records import records

MOST_DIGITS = 58
"""The most binary digits after the point of the integers that are added."""
SUM_DIGITS = 63
"""How many binary digits a sum of integers may have in an engine that does not widen sums."""
EXPECTED_SHARE = 16
"""A bin is expected to have at most one row in so many; a second query is made if one has more."""
SERIES_DEGREE = 5


def two_losses_table(rows: nw.LazyFrame[Any], constraint: Constraint, number: int) -> BinTable:
    """One GROUP BY: the number of rows and one integer sum per bin and loss.

    `rows` has the columns loss and ratio, `number` says how many rows there are.
    """
    digits = MOST_DIGITS
    if not rows.implementation.is_duckdb():  # DuckDB widens sums itself
        digits = _fitting_digits(number // EXPECTED_SHARE)
    found = _grouped(rows, constraint.bound, digits)
    most = max((record["rows"] for record in found), default=0)
    if not rows.implementation.is_duckdb() and _fitting_digits(most) < digits:
        digits = _fitting_digits(most)
        found = _grouped(rows, constraint.bound, digits)
    amounts = constraint.signed(np.array([0.0, constraint.bound])).tolist()
    entries = []
    for record in found:
        bin_number, second = divmod(int(record["key"]), 2)
        amount, count = amounts[second], int(record["rows"])
        if amount == 0:
            continue
        power = (math.frexp(abs(amount))[1] - 1) // POWER_DIGITS
        unit = round(math.ldexp(abs(amount), UNIT_DIGITS - POWER_DIGITS * power))
        rising = unit * count - (unit * int(record["less"]) >> digits)
        place = (bin_number, power, int(amount < 0))
        entries.append((*place, count, *halves(unit * count), *halves(rising)))
    table = np.array(sorted(entries), dtype=np.int64).reshape(-1, 8)
    keys = row_key(table[:, 0], table[:, 1], table[:, 2])
    return BinTable(keys, table[:, 3], table[:, 4:])


def _fitting_digits(most: int) -> int:
    """How many digits integers below 2^(digits − 8) may have if so many of them are added."""
    bin_digits = int(math.log2(BINS_PER_UNIT))
    return min(MOST_DIGITS, SUM_DIGITS + bin_digits - 1 - max(most, 1).bit_length())


def _grouped(rows: nw.LazyFrame[Any], bound: float, digits: int) -> list[dict[str, Any]]:
    """The sums, in units of 2^-digits."""
    column = nw.col
    loss = column("loss") if bound == 1 else column("loss") / bound
    placed = rows.select("loss", units=column("ratio") * float(BINS_PER_UNIT))
    placed = placed.with_columns(number=column("units").floor())
    keyed = placed.select(key=column("number") * 2 + loss, part=column("units") - column("number"))
    summed = keyed.select("key", less=_less_than_one(column("part"), digits).cast(nw.Int64))
    return records(summed.group_by("key").agg(nw.len().alias("rows"), column("less").sum()))


def _less_than_one(part: nw.Expr, digits: int) -> nw.Expr:
    """1 − e^(−(1 − part)/256) as a polynomial, in units of 2^-digits, plus a half for rounding."""
    width, scale = 1 / BINS_PER_UNIT, 2.0**digits
    terms = [
        -math.exp(-width) * width**k / math.factorial(k) * scale
        for k in range(1, SERIES_DEGREE + 1)
    ]
    found = part * terms[-1]
    for term in terms[-2::-1]:
        found = (found + term) * part
    return found + (-math.expm1(-width) * scale + 0.5)
