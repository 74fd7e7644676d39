"""Running sums over all scores in their order: the risk at every candidate threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_columns import CLAIMS_PER_BLOCK
from tether.risk.score_order import ascending


@dataclass(frozen=True, eq=False)
class SweepOrder:
    """Positions of the scores from the safest on, and which of them end a run of equal scores."""

    positions: NDArray[np.integer]
    run_ends: Booleans
    n_distinct: int
    larger_is_safer: bool

    @classmethod
    def of(cls, scores: Floats, *, larger_is_safer: bool) -> SweepOrder:
        """Sort once."""
        if len(scores) == 0:  # no claims at all: +inf is the only candidate
            return cls(np.zeros(0, np.int64), np.zeros(0, np.bool_), 0, larger_is_safer)
        positions, run_ends = ascending(scores)
        if larger_is_safer:  # in reverse, a run ends where it began
            positions = positions[::-1]
            run_ends = np.concatenate([run_ends[:-1][::-1], [True]])
        return cls(positions, run_ends, int(run_ends.sum()), larger_is_safer)

    def thresholds(self, scores: Floats) -> Floats:
        """Every distinct score, safest first, with +inf for keeping nothing.

        Where larger is safer, +inf comes first and then each score admits the claims at it. Where
        smaller is safer the lowest score, which keeps everything, comes first and +inf last:
        moving past a score drops the claims at it.
        """
        candidates = np.empty(self.n_distinct + 1)
        candidates[0 if self.larger_is_safer else -1] = np.inf
        count = int(self.larger_is_safer)
        for first in range(0, len(scores), CLAIMS_PER_BLOCK):
            block = slice(first, first + CLAIMS_PER_BLOCK)
            distinct = scores[self.positions[block]][self.run_ends[block]]
            candidates[count : count + len(distinct)] = distinct
            count += len(distinct)
        return candidates

    def sums(self, steps: Floats, start: float) -> Floats:
        """The running sum of steps at each candidate: `start` at the safest."""
        sums = np.empty(self.n_distinct + 1)
        sums[0] = start
        count = 1
        for first in range(0, len(steps), CLAIMS_PER_BLOCK):
            block = slice(first, first + CLAIMS_PER_BLOCK)
            running = np.cumsum(steps[self.positions[block]])
            running += start
            start = float(running[-1])
            running = running[self.run_ends[block]]
            sums[count : count + len(running)] = running
            count += len(running)
        return sums


def binned_sums(
    events: Integers | Floats, steps: Floats, start: float, n_thresholds: int
) -> Floats:
    """Running sums of steps at `n_thresholds` thresholds, by the index of each claim's event."""
    totals = np.bincount(events, weights=steps, minlength=n_thresholds + 1)[:n_thresholds]
    return np.asarray(start + np.cumsum(totals), dtype=np.float64)
