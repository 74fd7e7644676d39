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

from tether._core.kernels import Kernel, Several
from tether._core.ties import TIE_TOLERANCE
from tether.control.constraint import Constraint
from tether.control.parts.in_parts import OnLog
from tether.control.parts.ratio_bins import (
    BINS_PER_UNIT,
    LARGEST_LOG_RATIO,
    LOG_POWER,
    LOWER_SCALE,
    UPPER_SCALE,
    BinTable,
    bin_keys,
)
from tether.control.parts.survey import LogSurvey
from tether.control.parts.term_kernels import BinnedRows, BinRows

NO_BIN = -(1 << 40)
"""The number of the bin of rows that the table leaves out: with amounts or ratios of zero."""
SMALLEST_AMOUNT = 2.0**-900
"""The smallest size of an amount that the engine groups; a smaller one is left to the kernel."""
INTEGERS = ("upper", "lower", "rising_upper", "rising_lower")


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
    constraint = job.constraints[0]
    table = _collected(_query(frame, names, constraint))
    if table.num_rows == 0 or sum(table.column("invalid").to_pylist()):
        return None
    found = {name: table.column(name).to_numpy() for name in table.column_names}
    binned = _binned(found)
    if not kernel.survey:
        return Several((binned,))
    return Several((_survey(found), binned))


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
    loss, safe, optimized = (nw.col(name) for name in ("loss", "safe", "optimized"))
    ratio, amount, size = nw.col("ratio"), nw.col("amount"), nw.col("size")
    number, power, scaled = nw.col("number"), nw.col("power"), nw.col("scaled")
    renamed = frame.select(
        *(
            nw.col(name).cast(nw.Float64).alias(new)
            for name, new in zip(names, ("loss", "safe", "optimized"), strict=True)
        )
    )
    valued = renamed.with_columns(
        ratio=optimized - safe,
        amount=_amount(loss, constraint),
        invalid=_invalid(loss, safe, optimized, constraint),
    )
    sized = valued.with_columns(
        size=amount.abs(),
        counts=(ratio > -math.inf) & (amount != 0),
    )
    placed = sized.with_columns(
        number=nw.when(nw.col("counts"))
        .then((ratio * BINS_PER_UNIT).floor())
        .otherwise(float(NO_BIN)),
        power=nw.when(nw.col("counts"))
        .then((size.log() * (1 / LOG_POWER)).floor())
        .otherwise(0.0),
        negative=amount < 0,
    )
    scaled_rows = placed.with_columns(
        scaled=size * (power * -LOG_POWER).exp(),
        fall=(ratio - (number + 1) * (1 / BINS_PER_UNIT)).exp(),
    )
    rising = scaled * nw.col("fall")
    halves = scaled_rows.with_columns(
        upper=(scaled * UPPER_SCALE).floor(),
        rising_upper=(rising * UPPER_SCALE).floor(),
        rising=rising,
    )
    split = halves.with_columns(
        lower=((scaled * UPPER_SCALE - nw.col("upper")) * LOWER_SCALE).floor(),
        rising_lower=((nw.col("rising") * UPPER_SCALE - nw.col("rising_upper")) * LOWER_SCALE).floor(),
    )
    return split.group_by("number", "power", "negative").agg(
        nw.len().alias("rows"),
        nw.col("invalid").cast(nw.Int64).sum(),
        *(nw.col(name).cast(nw.Int64).sum().alias(name) for name in INTEGERS),
        *(nw.col(name).min().alias(f"least_{name}") for name in ("safe", "optimized", "ratio")),
        *(
            nw.col(name).max().alias(f"most_{name}")
            for name in ("loss", "safe", "optimized", "ratio", "size")
        ),
    )
