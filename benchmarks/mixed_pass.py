"""A unit of time for mixed work: one pass of five plain operations over the columns of a task.

Most of a calibration is arithmetic, gathering, and adding up by groups and by bins; `exp` is the
smaller part. A pass of `exp` alone (`exp_pass`) is 3.4 times as fast where numpy uses AVX-512 as
where it may not, and a sort changes by a factor of up to eight, while the tasks change by 0.9 to
1.5. The operations below, with `exp` of every second value, change by about 1.2 together, so that
tasks stated in them change by at most 1.3.

What numpy may use is limited by an environment variable, for a comparison on one machine:

    NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL" python -m benchmarks.calibration
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.exp_pass import ROWS_PER_PASS, Spent, columns_of, spent

GROUP, BINS = 8, 4096
"""How many neighbours are added up, and into how many bins values are counted."""

_rng = np.random.default_rng(0)
_ORDER = _rng.permutation(ROWS_PER_PASS)
_BIN = _rng.integers(0, BINS, ROWS_PER_PASS)


def mixed_work(columns: Sequence[np.ndarray]) -> float:
    """One pass over some columns, block by block, on one thread."""
    total = 0.0
    for column in columns:
        flat = column.reshape(-1)
        for start in range(0, len(flat), ROWS_PER_PASS):
            total += _block_work(flat[start : start + ROWS_PER_PASS])
    return total


def _block_work(values: np.ndarray) -> float:
    last = len(values) - 1
    order = _ORDER if len(values) == ROWS_PER_PASS else np.minimum(_ORDER[: last + 1], last)
    clipped = np.maximum(np.minimum(values, 0.3) * 0.7 + values, 0.1)
    grouped = np.add.reduceat(values, np.arange(0, len(values), GROUP))
    binned = np.bincount(_BIN[: len(values)], values, BINS)
    parts = (np.exp(values[::2]), values.take(order), clipped, grouped, binned)
    return float(sum(part.sum() for part in parts))


def unit_of(*tables: Any) -> Spent:
    """What one pass over all columns of a log, of proposals or of claims takes."""
    columns = columns_of(tables)
    return spent(lambda: mixed_work(columns))
