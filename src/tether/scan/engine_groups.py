"""The table of bins of a log without contexts, made by an engine with one GROUP BY.

The rows are grouped by bin of log ratio, size of their amount and its sign, as in
`tether.control.parts.ratio_bins`, and their amounts are added as integers. The same query finds the
ranges of all columns, so that the first pass over a log needs no other. Rows that are not valid are
counted; if there are any, the kernel itself is run, and says what is wrong with which row.
"""

from __future__ import annotations

import math
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tether._core.kernels import Kernel, Several
from tether._core.ties import TIE_TOLERANCE
from tether._core.types import Floats
from tether.control.constraint import Constraint
from tether.control.parts.in_parts import _OnLog as OnLog
from tether.control.parts.ratio_bins import (
    BINS_PER_UNIT,
    LARGEST_LOG_RATIO,
    LOWER_SCALE,
    POWER_DIGITS,
    UPPER_SCALE,
    BinTable,
)
from tether.control.parts.ratio_bins import _key as row_key
from tether.control.parts.survey import LogSurvey
from tether.control.parts.term_kernels import BinnedRows, BinRows

INTEGERS = ("upper", "lower", "rising_upper", "rising_lower")
"""The columns of integers that are added up."""
SCORES = ("safe", "optimized")
POWER = float(1 << POWER_DIGITS)


def grouped_summary(frame: nw.LazyFrame[Any], kernel: Kernel) -> Several | None:
    """The summary of a kernel on a frame, if it is one that an engine can make, else None."""
    job = _binned_rows(kernel)
    if job is None:
        return None
    assert isinstance(kernel, OnLog)
    schema, columns = frame.collect_schema(), kernel.log
    names = (columns.loss[0][1], columns.log_safe, columns.log_optimized)
    if not all(schema[name].is_numeric() or schema[name] == nw.Boolean for name in names):
        return None
    table = _collected(_query(frame, names, job.constraints[0]))
    found = {name: table.column(name).to_numpy() for name in table.column_names}
    if not len(found["rows"]) or found["invalid"].sum():
        return None
    binned = _binned(found)
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


def _query(
    frame: nw.LazyFrame[Any], names: tuple[str, str, str], constraint: Constraint
) -> nw.LazyFrame[Any]:
    """One row per bin, power and sign; rows whose amount is zero are in a group of their own."""
    column = nw.col
    short = frame.select(
        *(
            column(name).cast(nw.Float64).alias(new)
            for name, new in zip(names, ("loss", *SCORES), strict=True)
        )
    )
    valued = short.with_columns(
        ratio=column("optimized") - column("safe"),
        amount=_amount(constraint),
        invalid=_invalid(constraint).cast(nw.Int64),
    )
    placed = valued.with_columns(
        size=column("amount").abs(),
        sign=nw.when(column("amount") < 0)
        .then(-1)
        .otherwise(nw.when(column("amount") > 0).then(1).otherwise(0)),
        number=nw.when(column("ratio") > -math.inf)
        .then((column("ratio") * BINS_PER_UNIT).floor())
        .otherwise(-math.inf),
    )
    powers = _powers(constraint)
    scaled = placed.with_columns(
        power=_by_size(powers, [float(p) for p in powers]),
        scaled=column("size") * _by_size(powers, [UPPER_SCALE * POWER**-p for p in powers]),
        falling=(column("ratio") - (column("number") + 1) * (1 / BINS_PER_UNIT)).exp(),
    )
    upper = scaled.with_columns(
        upper=column("scaled").floor(), rising=column("scaled") * column("falling")
    ).with_columns(rising_upper=column("rising").floor())
    split = upper.with_columns(
        lower=((column("scaled") - column("upper")) * LOWER_SCALE).floor(),
        rising_lower=((column("rising") - column("rising_upper")) * LOWER_SCALE).floor(),
    )
    return split.group_by("number", "power", "sign").agg(
        nw.len().alias("rows"),
        column("invalid").sum(),
        *(column(name).cast(nw.Int64).sum() for name in INTEGERS),
        *(column(name).min().alias(f"least_{name}") for name in (*SCORES, "ratio")),
        *(column(name).max().alias(f"most_{name}") for name in ("loss", *SCORES, "ratio", "size")),
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
    return amount * nw.when(loss > above).then(error).otherwise(1 / error)


def _invalid(constraint: Constraint) -> nw.Expr:
    """Whether a row is missing a value, or has one that the kernel would refuse."""
    loss, safe, optimized = (nw.col(name) for name in ("loss", *SCORES))
    missing = loss.is_null() | safe.is_null() | optimized.is_null()
    not_a_number = loss.is_nan() | safe.is_nan() | optimized.is_nan()
    outside = (loss < 0) | (loss > constraint.bound) | ~safe.is_finite() | (optimized == math.inf)
    ratio = (optimized - safe).abs()
    large = (ratio > LARGEST_LOG_RATIO) & (optimized > -math.inf)
    return missing | not_a_number | outside | large


def _powers(constraint: Constraint) -> list[int]:
    """The powers of 256 that amounts have, from one below that of alpha up to that of the bound.

    Smaller amounts count in the lowest: below it their digits are those of rounding in the losses.
    """

    def power(size: float) -> int:
        return (math.frexp(size)[1] - 1) // POWER_DIGITS

    lowest = power(constraint.alpha / constraint.ratio_error) - 1
    return list(range(lowest, power(2 * constraint.bound * constraint.ratio_error) + 1))


def _by_size(powers: list[int], values: list[float]) -> nw.Expr:
    """A value that depends on the power of 256 in the size of an amount."""
    found: nw.Expr = nw.lit(values[0])
    for power, value in zip(powers[1:], values[1:], strict=True):
        found = nw.when(nw.col("size") >= POWER**power).then(nw.lit(value)).otherwise(found)
    return found


def _collected(query: nw.LazyFrame[Any]) -> pa.Table:
    native = query.to_native()
    if query.implementation.is_duckdb():
        return native.to_arrow_table()
    if query.implementation.is_polars():
        return native.collect(engine="streaming").to_arrow()
    return query.collect("pyarrow").to_native()


def _binned(found: dict[str, NDArray[Any]]) -> BinnedRows:
    used = (found["sign"] != 0) & np.isfinite(found["number"])
    number = found["number"][used].astype(np.int64)
    negative = found["sign"][used] < 0
    key = row_key(number, found["power"][used].astype(np.int64), negative)
    order = np.argsort(key)
    digits = np.stack([found[name][used].astype(np.int64) for name in INTEGERS], axis=1)
    table = BinTable(key[order], found["rows"][used].astype(np.int64)[order], digits[order])
    size = found["most_size"][used]

    def log_of_largest(chosen: NDArray[np.bool_]) -> float:
        largest = float(size.max(initial=0.0, where=chosen))
        return math.log(largest) if largest > 0 else -math.inf

    return BinnedRows((table,), ((log_of_largest(~negative), log_of_largest(negative)),))


def _survey(found: dict[str, NDArray[Any]]) -> LogSurvey:
    def ends(name: str, chosen: Floats | slice = slice(None)) -> tuple[float, float]:
        least, most = found[f"least_{name}"][chosen], found[f"most_{name}"][chosen]
        return float(least.min(initial=np.inf)), float(most.max(initial=-np.inf))

    return LogSurvey(
        rows=int(found["rows"].sum()),
        largest_loss=(float(found["most_loss"].max()),),
        scores=(ends("safe"), ends("optimized")),
        ratio=ends("ratio", np.isfinite(found["number"])),
        log_base=(0.0, 0.0),
        zeros=bool(found["least_optimized"].min() == -np.inf),
    )
