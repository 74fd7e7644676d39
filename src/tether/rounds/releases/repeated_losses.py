"""Losses that are in a table several times, told apart from losses that are equal by chance."""

from __future__ import annotations

import math

import numpy as np

from tether._core.types import Floats

LOG_ARRANGEMENTS = 30.0
"""Repeats are certain if chance gives them once in e to this power arrangements of the losses."""
LEAST_CHANGES = 6
"""How often losses must change from row to row: those of a sorted log have long equal runs."""


def repeated_losses(losses: Floats) -> tuple[int, int] | None:
    """How many rows a column has without its repeats, and how many times each; None without.

    A whole column is repeated as one block after another, or row by row. Missing losses are NaN.
    """
    count = len(losses)
    for rows in _divisors(count):
        times = count // rows
        for grid in (losses.reshape(times, rows), losses.reshape(rows, times).T):
            if not np.array_equal(grid, np.broadcast_to(grid[0], grid.shape), equal_nan=True):
                continue
            if _changes(grid[0]) < LEAST_CHANGES:
                continue
            if (times - 1) * _log_arrangements(grid[0]) > LOG_ARRANGEMENTS:
                return rows, times
    return None


def _divisors(count: int) -> list[int]:
    """The divisors of a number, smallest first, without itself."""
    small = [each for each in range(1, math.isqrt(count) + 1) if count % each == 0]
    return sorted({*small, *(count // each for each in small)} - {count})


def _changes(losses: Floats) -> int:
    """How many losses differ from the one before."""
    after, before = losses[1:], losses[:-1]
    return int(((after != before) & ~(np.isnan(after) & np.isnan(before))).sum())


def _log_arrangements(losses: Floats) -> float:
    """Log of the number of orders in which these losses may stand."""
    _, counts = np.unique(losses, return_counts=True)
    return math.lgamma(len(losses) + 1) - sum(math.lgamma(each + 1) for each in counts.tolist())
