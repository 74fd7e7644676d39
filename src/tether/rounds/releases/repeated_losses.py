"""Losses that are in a table several times, told apart from losses that are equal by chance."""

from __future__ import annotations

import math

import numpy as np

from tether._core.arrays import Floats, Integers

LOG_ARRANGEMENTS = 30.0
"""Repeats are certain if chance gives them once in e to this power arrangements of the losses."""
LEAST_CHANGES = 6
"""How often losses must change from row to row: those of a sorted log have long equal runs."""

CODES_PER_BLOCK = 1 << 14
"""How many losses are compared at a time with those of an earlier row."""


def repeated_losses(losses: Floats) -> tuple[int, int] | None:
    """How many rows a column has without its repeats, and how many times each; None without.

    A whole column is repeated as one block after another, or row by row. Missing losses are NaN.
    """
    if _changes(losses) < LEAST_CHANGES:
        return None
    codes, count = np.unique(losses, return_inverse=True)[1], len(losses)
    ends = np.flatnonzero(codes[1:] != codes[:-1]) + 1  # of runs of equal losses
    run = math.gcd(count, int(np.gcd.reduce(ends)))  # each is as long as some multiple of this
    for rows in _divisors(count):
        times = count // rows
        once = [losses[:rows]] if _has_period(codes, rows) else []
        once += [losses[::times]] if run % times == 0 else []
        for each in once:
            if _changes(each) < LEAST_CHANGES:
                continue
            if (times - 1) * _log_arrangements(each) > LOG_ARRANGEMENTS:
                return rows, times
    return None


def _has_period(codes: Integers, rows: int) -> bool:
    """Whether each value is that of so many rows before; most answers take one block."""
    last = len(codes) - rows
    return all(
        np.array_equal(codes[first : first + block], codes[first + rows : first + rows + block])
        for first in range(0, last, CODES_PER_BLOCK)
        for block in [min(CODES_PER_BLOCK, last - first)]
    )


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
