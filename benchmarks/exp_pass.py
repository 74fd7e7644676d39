"""A unit of time: one pass of `exp` and sum over the columns that a task reads.

It is for tasks that are mostly exponentials; where numpy uses AVX-512 it is 3.4 times as fast as
elsewhere, which little else is. Mixed work is stated in the unit of `mixed_pass`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ROWS_PER_PASS = 1 << 15
"""How many values are read at once: few enough for the cache of one core."""


@dataclass(frozen=True)
class Spent:
    """The best processor time and the best elapsed time of a few runs, in seconds."""

    processor: float
    elapsed: float


def exp_and_sum(columns: Sequence[np.ndarray]) -> float:
    """One pass of `exp` and sum over some columns, on one thread."""
    total = 0.0
    for column in columns:
        flat = column.reshape(-1)
        for start in range(0, len(flat), ROWS_PER_PASS):
            total += float(np.exp(flat[start : start + ROWS_PER_PASS]).sum())
    return total


def spent(task: Callable[[], Any], repeats: int = 5) -> Spent:
    """The best of a few runs: on a shared machine, the rest is the neighbours'."""
    processor, elapsed = np.inf, np.inf
    for _ in range(repeats):
        began, clock = time.process_time(), time.perf_counter()
        task()
        processor = min(processor, time.process_time() - began)
        elapsed = min(elapsed, time.perf_counter() - clock)
    return Spent(float(processor), float(elapsed))


def unit_of(*tables: Any) -> Spent:
    """What one pass over all columns of a log, of proposals or of claims takes."""
    columns = columns_of(tables)
    return spent(lambda: exp_and_sum(columns))


def columns_of(tables: Sequence[Any]) -> list[np.ndarray]:
    """The columns of numbers of some tables."""
    names = ("log_safe", "log_optimized", "log_mix", "log_safe_all", "log_optimized_all", "scores")
    found = [getattr(table, name, None) for table in tables for name in names]
    losses = [loss for table in tables for loss in getattr(table, "loss", {}).values()]
    return [column for column in (*found, *losses) if column is not None]
