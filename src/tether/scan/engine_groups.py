"""The table of bins of a log without contexts, made by DuckDB or Polars with one GROUP BY.

The rows are grouped by bin of log ratio, size of their amount and its sign, as in
`tether.control.parts.ratio_bins`, and their amounts are added as integers; where every loss is zero
or the bound, by bin and loss (`engine_two_losses`). A second query, which
costs no more than a bare scan, finds the ranges of the columns. Where a value is not valid or not
finite, the kernel itself is run on the rows, and says what is wrong with which of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from tether._core.kernels import Kernel, Several
from tether._core.ties import TIE_TOLERANCE
from tether.control.constraint import Constraint
from tether.control.parts.in_parts import _OnLog as OnLog
from tether.control.parts.ratio_bins import (
    BINS_PER_UNIT,
    LARGEST_BINNED_RATIO,
    POWER_DIGITS,
    UNIT_DIGITS,
    BinTable,
    halves,
    row_key,
)
from tether.control.parts.survey import LogSurvey
from tether.control.parts.term_kernels import BinnedRows, BinRows
from tether.scan.engine_records import records
from tether.scan.engine_two_losses import two_losses_table

GROUPED = ("loss", "safe", "optimized", "ratio")
"""The short names that the columns have in the queries."""
POWER_BASE = float(1 << POWER_DIGITS)


class Ranges(NamedTuple):
    """What a first query says of all rows: their number, and the extremes of each column."""

    rows: int
    least: dict[str, float]
    most: dict[str, float]
    two_losses: bool
    """Whether every loss is zero or the bound."""
    valid: bool


def grouped_summary(frame: nw.LazyFrame[Any], kernel: Kernel) -> Several | None:
    """The summary of a kernel on a frame, if it is one that an engine can make, else None."""
    job = _binned_rows(kernel)
    if job is None or not (frame.implementation.is_duckdb() or frame.implementation.is_polars()):
        return None
    assert isinstance(kernel, OnLog)
    schema, columns = frame.collect_schema(), kernel.log
    names = (columns.loss[0][1], columns.log_safe, columns.log_optimized)
    if not all(schema[name].is_numeric() or schema[name] == nw.Boolean for name in names):
        return None
    constraint = job.constraints[0]
    rows = short_columns(frame, names)
    found = ranges(rows, constraint.bound)
    if not found.valid or found.least["loss"] < 0 or found.most["loss"] > constraint.bound:
        return None
    if found.two_losses:
        table = two_losses_table(rows, constraint, found.rows)
    else:
        table = bin_table(rows, constraint, found.most["loss"])
    binned = BinnedRows((table,), (_largest(constraint, found),))
    return Several((_survey(found), binned) if kernel.survey else (binned,))


def _binned_rows(kernel: Kernel) -> BinRows | None:
    """The kernel that bins the rows of a log with one loss and no mixture, tables or rewards."""
    if not isinstance(kernel, OnLog) or len(kernel.kernels) != 1 or kernel.reward:
        return None
    job, columns = kernel.kernels[0], kernel.log
    if not isinstance(job, BinRows) or len(job.constraints) != 1 or len(columns.loss) != 1:
        return None
    plain = columns.log_mix is None and not columns.tables and not columns.draws
    return job if plain and not job.blend and job.bins.left is None else None


def short_columns(frame: nw.LazyFrame[Any], names: tuple[str, str, str]) -> nw.LazyFrame[Any]:
    """The loss and the two scores as floats with short names, and the log ratio."""
    chosen = (
        nw.col(name).cast(nw.Float64).alias(new) for name, new in zip(names, GROUPED, strict=False)
    )
    return frame.select(*chosen).with_columns(ratio=nw.col("optimized") - nw.col("safe"))


def ranges(rows: nw.LazyFrame[Any], bound: float) -> Ranges:
    """The extremes of all columns, and whether every value is there, finite and of a fair size."""
    column = nw.col
    found = records(
        rows.select(
            nw.len().alias("rows"),
            *(column(name).min().alias(f"least_{name}") for name in GROUPED),
            *(column(name).max().alias(f"most_{name}") for name in GROUPED),
            *(column(name).sum().alias(f"sum_{name}") for name in GROUPED[:3]),
            *(column(name).count().alias(f"count_{name}") for name in GROUPED[:3]),
            ((column("loss") == 0) | (column("loss") == bound)).cast(nw.Int64).sum().alias("two"),
        )
    )[0]
    number = int(found["rows"])
    if not number:
        return Ranges(0, {}, {}, two_losses=False, valid=False)
    least, most = ({name: found[f"{end}_{name}"] for name in GROUPED} for end in ("least", "most"))
    values = [*least.values(), *most.values(), *(found[f"sum_{name}"] for name in GROUPED[:3])]
    valid = all(value is not None and math.isfinite(value) for value in values)
    valid = valid and all(found[f"count_{name}"] == number for name in GROUPED[:3])
    valid = valid and max(-least["ratio"], most["ratio"]) <= LARGEST_BINNED_RATIO
    return Ranges(number, least, most, two_losses=found["two"] == number, valid=valid)


def bin_table(rows: nw.LazyFrame[Any], constraint: Constraint, most_loss: float) -> BinTable:
    """One GROUP BY: the number of rows and two integer sums per bin, power and sign."""
    column, powers = nw.col, _powers(constraint, most_loss)
    placed = rows.with_columns(
        amount=_amount(constraint), number=(column("ratio") * BINS_PER_UNIT).floor()
    ).with_columns(size=column("amount").abs())
    place = _by_size(powers, [float(2 * index) for index in range(len(powers))])
    units = _by_size(powers, [2.0**UNIT_DIGITS * POWER_BASE**-power for power in powers])
    sign = nw.when(column("amount") < 0).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    right = (column("number") + 1) * (1 / BINS_PER_UNIT)
    scaled = placed.filter(column("size") > 0).select(
        key=(column("number") * (2 * len(powers)) + place + sign).cast(nw.Int64),
        size=column("size") * units,
        falling=(column("ratio") - right).exp(),
    )
    wide = nw.Int64 if rows.implementation.is_duckdb() else nw.Int128  # DuckDB widens sums itself
    summed = records(
        scaled.select(
            "key",
            flat=column("size").floor().cast(nw.Int64).cast(wide),
            rising=(column("size") * column("falling")).floor().cast(nw.Int64).cast(wide),
        )
        .group_by("key")
        .agg(nw.len().alias("rows"), column("flat").sum(), column("rising").sum())
    )
    key = np.array([record["key"] for record in summed], dtype=np.int64)
    number, rest = np.divmod(key, 2 * len(powers))
    power = np.asarray(powers, dtype=np.int64)[rest // 2]
    keys = row_key(number, power, rest % 2)
    order = np.argsort(keys)
    sums = [(int(record["flat"]), int(record["rising"])) for record in summed]
    digits = [[half for total in pair for half in halves(total)] for pair in sums]
    counts = np.array([record["rows"] for record in summed], dtype=np.int64)
    return BinTable(
        keys[order], counts[order], np.array(digits, dtype=np.int64).reshape(-1, 4)[order]
    )


def _amount(constraint: Constraint) -> nw.Expr:
    """`Constraint.signed` as an expression."""
    loss = nw.col("loss")
    difference = loss - constraint.alpha
    above = constraint.alpha if constraint.split is None else constraint.split
    error = constraint.ratio_error
    tied = nw.when(loss < constraint.alpha).then(difference * (1 + TIE_TOLERANCE))
    amount = tied.otherwise(difference)
    if error == 1:
        return amount
    return amount * nw.when(loss > above).then(nw.lit(error)).otherwise(nw.lit(1 / error))


def _powers(constraint: Constraint, most_loss: float) -> list[int]:
    """The powers of 256 by which amounts are grouped, up to that of the largest.

    Smaller amounts than that of alpha count in its power, and those of one power below the largest
    in that of the largest: what is lost of their digits is rounding in the losses.
    """

    def power(size: float) -> int:
        return (math.frexp(size)[1] - 1) // POWER_DIGITS

    error, largest = constraint.ratio_error, max(most_loss, constraint.alpha)
    highest = power(2 * largest * error)
    return list(range(min(power(constraint.alpha / error) + 1, highest), highest + 1))


def _by_size(powers: list[int], values: list[float]) -> nw.Expr:
    """A value that depends on the power of 256 in the size of an amount."""
    found: nw.Expr = nw.lit(values[0])
    for power, value in zip(powers[1:], values[1:], strict=True):
        large = nw.col("size") >= POWER_BASE**power
        found = nw.when(large).then(nw.lit(value)).otherwise(found)
    return found


def _largest(constraint: Constraint, found: Ranges) -> tuple[float, float]:
    """Logs of the largest positive and of the largest negative amount."""
    ends = constraint.signed(np.array([found.most["loss"], found.least["loss"]]))
    with np.errstate(divide="ignore"):
        high, low = np.log([max(float(ends[0]), 0.0), max(-float(ends[1]), 0.0)])
    return float(high), float(low)


def _survey(found: Ranges) -> LogSurvey:
    def ends(name: str) -> tuple[float, float]:
        return found.least[name], found.most[name]

    return LogSurvey(
        rows=found.rows,
        largest_loss=(found.most["loss"],),
        scores=(ends("safe"), ends("optimized")),
        ratio=ends("ratio"),
        log_base=(0.0, 0.0),
    )
