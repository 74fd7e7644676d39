"""Exact draws from finitely many actions: no rejection, one uniform number per action."""

from __future__ import annotations

import numpy as np

from tether._core.arrays import Floats, Integers

SMALLEST_ROW_SUM = 1e-200
"""Rows whose sum falls below this are rescaled by their own largest entry and summed again."""


def sample_categorical(log_table: Floats, count: int, rng: np.random.Generator) -> Integers:
    """Draw one column per row of a table of log-probabilities.

    They are logs up to a constant per row; a single row is used for all `count` draws.
    """
    running = _running_sums(log_table, log_table.max())
    row_sums = running[:, -1]
    underflowed = np.flatnonzero(~(row_sums >= SMALLEST_ROW_SUM))  # includes NaN, from all −inf
    if len(underflowed):
        maxima = log_table[underflowed].max(axis=1, keepdims=True)
        if maxima.min() == -np.inf:
            row = underflowed[np.argmin(maxima)]
            raise ValueError(f"no action is possible in row {row}: all are -inf")
        running[underflowed] = _running_sums(log_table[underflowed], maxima)
    targets = rng.random(count) * (row_sums[0] if len(row_sums) == 1 else row_sums)
    if len(log_table) == 1:
        columns = np.searchsorted(running[0], targets, side="right")
    else:
        columns = (running > targets[:, None]).argmax(axis=1)
    return np.asarray(columns, dtype=np.int64)


def _running_sums(log_table: Floats, log_scale: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        running = log_table - log_scale
    np.exp(running, out=running)
    return np.cumsum(running, axis=1, out=running)


def log_softmax(scores: Floats, temperature: float = 1.0) -> Floats:
    """Log-probabilities proportional to e^(score / temperature), along the last axis."""
    with np.errstate(over="ignore"):  # overflow to −inf: such an action has probability 0
        shifted = (scores - scores.max(axis=-1, keepdims=True)) / temperature
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.asarray(shifted)
