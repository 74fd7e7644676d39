"""Where along a sweep to stop. The loss of the item to come is unknown and counted at the bound."""

from __future__ import annotations

import numpy as np

from tether._check import Floats
from tether._ties import at_most
from tether.risk.claims import BLOCK
from tether.risk.curve import Sweep


def passes(sweep: Sweep, sums: Floats, alpha: float, where: slice) -> np.ndarray:
    """Whether the conservative risk is at most alpha, compared as sums, at a stretch of a sweep."""
    total = sweep.total if isinstance(sweep.total, float) else sweep.total[where]
    limit = alpha * (total + sweep.test_weight)
    return np.asarray(at_most(sums[where] + sweep.test_weight * sweep.bound, limit))


def before_first_violation(sweep: Sweep, sums: Floats, alpha: float) -> int:
    """The boldest candidate such that it and all safer ones pass; −1 where the safest fails."""
    for first in range(0, len(sums), BLOCK):
        passed = passes(sweep, sums, alpha, slice(first, first + BLOCK))
        if not passed.all():
            return first + int(np.argmin(passed)) - 1
    return len(sums) - 1


def boldest_passing(sweep: Sweep, sums: Floats, alpha: float) -> int:
    """The boldest candidate that passes, whatever safer ones do; −1 where none does."""
    for stop in range(len(sums), 0, -BLOCK):
        start = max(0, stop - BLOCK)
        passed = passes(sweep, sums, alpha, slice(start, stop))
        if passed.any():
            return stop - 1 - int(np.argmax(passed[::-1]))
    return -1
