"""Exact draws from finitely many actions: no rejection, one uniform number an action."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats

FAINT = 1e-200
"""Rows whose sum is below this are scaled by their own largest entry before they are summed."""


def choose(log_table: Floats, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A column for each row of a table of log-probabilities; a single row serves them all.

    Rows need not be normalized: the draw is against their running sums.
    """
    running = _running_sums(log_table, log_table.max())
    last = running[:, -1]
    faint = np.flatnonzero(~(last >= FAINT))  # NaN, of a table of −inf, is faint too
    if len(faint):
        running[faint] = _running_sums(log_table[faint], _tops(log_table, faint))
    aim = rng.random(count) * (last[0] if len(last) == 1 else last)
    if len(log_table) == 1:
        place = np.searchsorted(running[0], aim, side="right")
    else:
        place = (running > aim[:, None]).argmax(axis=1)
    return np.asarray(place, dtype=np.int64)


def log_softmax(scores: Floats, temperature: float = 1.0) -> Floats:
    """Log-probabilities in proportion to e^(score / temperature), along the last axis."""
    with np.errstate(over="ignore"):  # past the smallest number it is impossible, rightly
        shifted = (scores - scores.max(axis=-1, keepdims=True)) / temperature
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.asarray(shifted)


def _running_sums(log_table: Floats, top: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        running = log_table - top
    np.exp(running, out=running)
    return np.cumsum(running, axis=1, out=running)


def _tops(log_table: Floats, rows: NDArray[np.int64]) -> Floats:
    tops = np.asarray(log_table[rows].max(axis=1, keepdims=True))
    if tops.min() == -np.inf:
        raise ValueError(f"no action is possible in row {rows[np.argmin(tops)]}: all are -inf")
    return tops
