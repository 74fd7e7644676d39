"""Running sums over all scores in their order: the risk at every candidate threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core.types import Booleans, Floats
from tether.risk.claims import BLOCK
from tether.risk.score_order import ascending


@dataclass(frozen=True, eq=False)
class Order:
    """Positions of the scores from the safest on, and which close a run of equal ones."""

    positions: Any
    closes: Booleans
    count: int
    larger_is_safer: bool

    @classmethod
    def of(cls, scores: Floats, *, larger_is_safer: bool) -> Order:
        """Sort once."""
        if len(scores) == 0:  # items without any claim: only +inf is left
            return cls(np.zeros(0, np.int64), np.zeros(0, np.bool_), 0, larger_is_safer)
        positions, closes = ascending(scores)
        if larger_is_safer:  # backwards, a run closes where it began
            positions = positions[::-1]
            closes = np.concatenate([closes[:-1][::-1], [True]])
        return cls(positions, closes, int(closes.sum()), larger_is_safer)

    def thresholds(self, scores: Floats) -> Floats:
        """Every distinct score, safest first, with +inf for keeping nothing.

        Where larger is safer, +inf comes first and then each score admits the claims at it. Where
        smaller is safer the lowest score, which keeps everything, comes first and +inf last:
        moving past a score drops the claims at it.
        """
        found = np.empty(self.count + 1)
        found[0 if self.larger_is_safer else -1] = np.inf
        count = int(self.larger_is_safer)
        for first in range(0, len(scores), BLOCK):
            run = scores[self.positions[first : first + BLOCK]][self.closes[first : first + BLOCK]]
            found[count : count + len(run)] = run
            count += len(run)
        return found

    def sums(self, steps: Floats, start: float) -> Floats:
        """The running sum of steps at each candidate: `start` at the safest."""
        found = np.empty(self.count + 1)
        found[0] = start
        count = 1
        for first in range(0, len(steps), BLOCK):
            running = np.cumsum(steps[self.positions[first : first + BLOCK]])
            running += start
            start = float(running[-1])
            running = running[self.closes[first : first + BLOCK]]
            found[count : count + len(running)] = running
            count += len(running)
        return found


def binned_sums(events: Any, steps: Floats, start: float, count: int) -> Floats:
    """Running sums of steps at `count` given thresholds, by the index of each claim's event."""
    totals = np.bincount(events, weights=steps, minlength=count + 1)[:count]
    return np.asarray(start + np.cumsum(totals), dtype=np.float64)
