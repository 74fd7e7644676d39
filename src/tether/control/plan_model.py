"""The model of a plan: what beta, and what stated promise, a log of a given size would allow.

A loss is 0 or the bound, which is the hardest case for a given risk. Log ratios are normal among
harmful and among harmless actions, shifted so that the optimized policy has its risk. Then all
expectations that the condition needs are those of clipped lognormal variables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tether._core.safe_excess import SafeMean
from tether._core.types import Floats

LOG_BETA_LIMIT, LOG_BETA_POINTS = 60.0, 24_001
"""The range of log beta in which the expected condition is examined, and at how many points."""
CONDITION_TOLERANCE = 1e-12
"""How far above zero, relatively, the expected condition still passes."""
LEVELS_BELOW_PROMISE = 40
"""How many levels of alpha between the safe risk and a promise are tried."""
MAX_PLANNED_ROWS = 1 << 40
"""A plan that needs more rows than this is hopeless."""


class Outlook(NamedTuple):
    """What to expect at one level of alpha: beta, and the whole stated promise."""

    alpha: float
    beta: float
    promise: float


class _Clipped(NamedTuple):
    """Moments of min(ratio, beta) along the grid of betas, and P(ratio > beta)."""

    mean: Floats
    square: Floats
    tail: Floats


@dataclass(frozen=True)
class PlanModel:
    """Harmful and harmless actions, each with normal log ratios under the safe policy.

    `harmful` and `harmful_optimized` are the shares of harmful actions of the two policies.
    """

    bound: float
    harmful: float
    harmful_optimized: float
    spread: float

    def beta(self, alpha: float, rows: int) -> float:
        """Where the expected condition first fails, with as many proposals as rows."""
        place = self._place(alpha, rows)
        if place is None:
            return math.inf
        return float(np.exp(self._grid[place])) if place >= 0 else 0.0

    def outlook(self, alpha: float, rows: int) -> Outlook:
        """Beta and the promise to expect, to first order in what one row can change.

        Leaving a row out changes the condition by (loss − alpha)·min(ratio, beta) / rows, and log
        beta by that over the slope; the stability is the mean of these moves, weighted by the rows'
        own weights. The existence term is what the log's own estimate is on average, in which the
        mean loss counts with twice its variance.
        """
        place = self._place(alpha, rows)
        if place is None:
            return Outlook(alpha, math.inf, alpha + self._existence(alpha, rows))
        if place < 0:
            return Outlook(alpha, 0.0, self.bound)
        log_beta = self._grid[place]
        above, below = self.harmful * (self.bound - alpha), (1 - self.harmful) * alpha
        slope = math.exp(log_beta) * (
            above * self._of_harmful.tail[place] - below * self._of_harmless.tail[place]
        )
        if log_beta < self._largest_log_ratio(rows):
            slope += (self.bound - alpha) * math.exp(log_beta) / rows
        moved = above * self._of_harmful.square[place] + below * self._of_harmless.square[place]
        weight = self.harmful * self._of_harmful.mean[place]
        weight += (1 - self.harmful) * self._of_harmless.mean[place]
        stability = math.inf if slope <= 0 else moved / (weight * slope * rows)
        stated = alpha + max(alpha, self.bound - alpha) * stability + self._existence(alpha, rows)
        return Outlook(alpha, math.exp(log_beta), min(self.bound, stated))

    def boldest(self, promise: float, rows: int) -> Outlook | None:
        """The largest beta to expect whose stated promise is at most this; None if none is."""
        safe_risk = self.harmful * self.bound
        if safe_risk >= promise:
            return None
        # Levels are closest together near the promise, where those for many rows are.
        shares = 1 - np.square(np.arange(LEVELS_BELOW_PROMISE) / LEVELS_BELOW_PROMISE)
        levels = safe_risk + (promise - safe_risk) * shares
        tried = (self.outlook(float(level), rows) for level in levels)
        kept = [found for found in tried if found.beta > 0 and found.promise <= promise]
        return max(kept, key=lambda found: found.beta, default=None)

    def rows_for_promise(self, promise: float) -> float:
        """The fewest rows that can be expected to keep a promise, to three digits; inf if none."""
        rows = 1
        while self.boldest(promise, rows) is None:
            rows *= 2
            if rows > MAX_PLANNED_ROWS or self.harmful * self.bound >= promise:
                return math.inf
        low = rows // 2
        while rows - low > max(1, low // 1000):
            middle = (low + rows) // 2
            if self.boldest(promise, middle) is None:
                low = middle
            else:
                rows = middle
        return rows

    def _existence(self, alpha: float, rows: int) -> float:
        risk = self.harmful * self.bound
        variance = 2 * self.harmful * (1 - self.harmful) / (rows + 1)
        error = math.sqrt(variance + ((1 - self.harmful) / (rows + 1)) ** 2)
        return SafeMean(risk, self.bound * error).excess(alpha)

    def _place(self, alpha: float, rows: int) -> int | None:
        """The last point of the grid before the condition fails; −1: the first one; None: never."""
        grid = self._grid
        log_test_weight = np.minimum(grid, self._largest_log_ratio(rows))
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

    def _center(self, optimized: float, safe: float) -> float:
        """Mean log ratio of actions that have these shares under the two policies."""
        if optimized == 0 or safe == 0:
            return -math.inf
        return math.log(optimized / safe) - self.spread**2 / 2

    def _clipped(self, optimized: float, safe: float) -> _Clipped:
        """E min(ρ, β), E min(ρ, β)² and P(ρ > β) of a lognormal ratio, along the grid."""
        from scipy.special import ndtr

        center, spread, grid = self._center(optimized, safe), self.spread, self._grid
        if math.isinf(center):
            return _Clipped(*np.zeros((3, len(grid))))
        with np.errstate(over="ignore"):  # infinitely many standard deviations
            above = (center - grid) / spread
        tail = ndtr(above)
        mean = np.exp(center + spread**2 / 2) * ndtr(-above - spread) + np.exp(grid) * tail
        square = np.exp(2 * center + 2 * spread**2) * ndtr(-above - 2 * spread)
        return _Clipped(np.asarray(mean), np.asarray(square + np.exp(2 * grid) * tail), tail)

    def _largest_log_ratio(self, draws: int) -> float:
        """The largest log ratio to expect among draws from the optimized policy."""
        from scipy.special import ndtri

        shares = (
            (self.harmful_optimized, self.harmful),
            (1 - self.harmful_optimized, 1 - self.harmful),
        )
        return max(
            self._center(optimized, safe)
            + self.spread**2
            + self.spread * float(ndtri(1 - 1 / max(optimized * draws, 2.0)))
            for optimized, safe in shares
        )
