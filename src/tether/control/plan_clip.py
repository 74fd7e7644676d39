"""The model of a plan for clip.

All expectations that the condition of clip needs are those of clipped lognormal variables. The
normalizing constant cancels without contexts, and with contexts in which ratios are spread alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tether._core.types import Floats
from tether.control.plan_model import Outlook, PlanModel

LOG_BETA_LIMIT, LOG_BETA_POINTS = 60.0, 24_001
"""The range of log beta in which the expected condition is examined, and at how many points."""
CONDITION_TOLERANCE = 1e-12
"""How far above zero, relatively, the expected condition still passes."""


class _Clipped(NamedTuple):
    """Moments of min(ratio, beta) along the grid of betas, and P(ratio > beta)."""

    mean: Floats
    square: Floats
    tail: Floats


@dataclass(frozen=True)
class ClipModel(PlanModel):
    """What to expect of clip."""

    def outlook(self, alpha: float, rows: int) -> Outlook:
        """Where the expected condition first fails, and the promise to expect there.

        Leaving a row out changes the condition by (loss − alpha)·min(ratio, beta) / rows, and log
        beta by that over the slope; the stability is the mean of these moves, weighted by the rows'
        own weights.
        """
        place = self._place(alpha, rows)
        if place is None:
            return Outlook(alpha, math.inf, alpha + self.existence(alpha, rows))
        if place < 0:
            return Outlook(alpha, 0.0, self.bound)
        log_beta = self._grid[place]
        above, below = self.harmful * (self.bound - alpha), (1 - self.harmful) * alpha
        slope = math.exp(log_beta) * (
            above * self._of_harmful.tail[place] - below * self._of_harmless.tail[place]
        )
        if log_beta < self.largest_log_ratio(rows):
            slope += (self.bound - alpha) * math.exp(log_beta) / rows
        moved = above * self._of_harmful.square[place] + below * self._of_harmless.square[place]
        weight = self.harmful * self._of_harmful.mean[place]
        weight += (1 - self.harmful) * self._of_harmless.mean[place]
        stability = math.inf if slope <= 0 else moved / (weight * slope * rows)
        stated = alpha + max(alpha, self.bound - alpha) * stability + self.existence(alpha, rows)
        return Outlook(alpha, math.exp(log_beta), min(self.bound, stated))

    def _place(self, alpha: float, rows: int) -> int | None:
        """The last point of the grid before the condition fails; −1: the first one; None: never."""
        grid = self._grid
        log_test_weight = np.minimum(grid, self.largest_log_ratio(rows))
        value = self.harmful * (self.bound - alpha) * self._of_harmful.mean
        value = value - (1 - self.harmful) * alpha * self._of_harmless.mean
        value += (self.bound - alpha) * np.exp(log_test_weight) / rows
        failing = value > CONDITION_TOLERANCE * np.exp(np.minimum(grid, 0))
        return int(np.argmax(failing)) - 1 if failing.any() else None

    @cached_property
    def _grid(self) -> Floats:
        return np.linspace(-LOG_BETA_LIMIT, LOG_BETA_LIMIT, LOG_BETA_POINTS)

    @cached_property
    def _of_harmful(self) -> _Clipped:
        return self._clipped(self.harmful_optimized, self.harmful)

    @cached_property
    def _of_harmless(self) -> _Clipped:
        return self._clipped(1 - self.harmful_optimized, 1 - self.harmful)

    def _clipped(self, optimized: float, safe: float) -> _Clipped:
        """E min(ρ, β), E min(ρ, β)² and P(ρ > β) of a lognormal ratio, along the grid."""
        from scipy.special import ndtr

        center, spread, grid = self.center(optimized, safe), self.spread, self._grid
        if math.isinf(center):
            return _Clipped(*np.zeros((3, len(grid))))
        with np.errstate(over="ignore"):  # infinitely many standard deviations
            above = (center - grid) / spread
        tail = ndtr(above)
        mean = np.exp(center + spread**2 / 2) * ndtr(-above - spread) + np.exp(grid) * tail
        square = np.exp(2 * center + 2 * spread**2) * ndtr(-above - 2 * spread)
        return _Clipped(np.asarray(mean), np.asarray(square + np.exp(2 * grid) * tail), tail)
