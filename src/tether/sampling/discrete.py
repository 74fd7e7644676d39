"""Exact draws from finitely many actions: no rejection, one uniform number an action."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether._check import Floats


def choose(log_table: Floats, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A column for each row of a table of log-probabilities; a single row serves them all.

    Rows need not be normalized: the draw is against their running sums.
    """
    top = log_table.max(axis=1, keepdims=True)
    if top.min() == -np.inf:
        raise ValueError(f"no action is possible in row {int(np.argmin(top))}: all are -inf")
    running = np.exp(log_table - top)
    np.cumsum(running, axis=1, out=running)
    last = running[:, -1]
    if len(log_table) == 1:
        aim = rng.random(count) * last[0]
        place = np.searchsorted(running[0], aim, side="right")
    else:
        aim = rng.random(count) * last
        place = (running <= aim[:, None]).sum(axis=1)
    return np.asarray(place, dtype=np.int64)


def log_softmax(scores: Floats) -> Floats:
    """Log-probabilities in proportion to the exponentials of scores, along the last axis."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.asarray(shifted)
