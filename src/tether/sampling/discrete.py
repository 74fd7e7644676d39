"""Exact draws from finitely many actions: no rejection, one uniform number per action."""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats, Integers

SMALLEST_ROW_SUM = 1e-200
"""Rows whose sum falls below this are rescaled by their own largest entry and summed again."""


def sample_categorical(log_table: Floats, count: int, rng: np.random.Generator) -> Integers:
    """Draw one column per row of a table of log-probabilities.

    Rows need not be normalized: the draw compares a uniform number with their running sums.

    Parameters
    ----------
    log_table : ndarray of shape (count, columns) or (1, columns)
        Log-probabilities up to a constant per row. A single row is used for every draw.
    count : int
        Number of draws; equal to the number of rows unless there is only one.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of int64
        The column drawn for each row.

    Raises
    ------
    ValueError
        If a row has no possible column (every entry is −inf).

    Examples
    --------
    >>> table = np.log([[0.5, 0.5], [1e-9, 1.0]])
    >>> sample_categorical(table, 2, np.random.default_rng(0))
    array([1, 1])
    """
    running = _running_sums(log_table, log_table.max())
    row_sums = running[:, -1]
    underflowed = np.flatnonzero(~(row_sums >= SMALLEST_ROW_SUM))  # includes NaN, from all −inf
    if len(underflowed):
        running[underflowed] = _running_sums(
            log_table[underflowed], _row_maxima(log_table, underflowed)
        )
    targets = rng.random(count) * (row_sums[0] if len(row_sums) == 1 else row_sums)
    if len(log_table) == 1:
        columns = np.searchsorted(running[0], targets, side="right")
    else:
        columns = (running > targets[:, None]).argmax(axis=1)
    return np.asarray(columns, dtype=np.int64)


def log_softmax(scores: Floats, temperature: float = 1.0) -> Floats:
    """Log-probabilities proportional to e^(score / temperature), along the last axis."""
    with np.errstate(over="ignore"):  # overflow to −inf: such an action has probability 0
        shifted = (scores - scores.max(axis=-1, keepdims=True)) / temperature
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.asarray(shifted)


def _running_sums(log_table: Floats, log_scale: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        running = log_table - log_scale
    np.exp(running, out=running)
    return np.cumsum(running, axis=1, out=running)


def _row_maxima(log_table: Floats, rows: Integers) -> Floats:
    maxima = np.asarray(log_table[rows].max(axis=1, keepdims=True))
    if maxima.min() == -np.inf:
        raise ValueError(f"no action is possible in row {rows[np.argmin(maxima)]}: all are -inf")
    return maxima
