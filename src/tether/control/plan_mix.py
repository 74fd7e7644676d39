"""The model of a plan for mix, whose condition is a straight line in beta.

A weight of mix is (1 + β·ρ)/(1 + β), with or without contexts. Times 1 + β, the expected condition
on n rows with the largest ratio M is

    n·(safe risk − α + β·(optimized risk − α)) + (B − α)·(1 + β·M)  ≤  0,

so beta has a closed form. Leaving out a row of loss l and ratio ρ moves it by (l − α)·(1 + β·ρ)/D,
where D is the slope of the condition, and the row's own weight by (ρ − 1)/(1 + β)² times that. The
stability is the sum of the absolute values over the total weight, n + (1 + β·M)/(1 + β). It takes
the means of |ρ − 1| and ρ·|ρ − 1| over harmful and over harmless actions, of lognormal ratios or of
the rows of a log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tether.control.plan_model import Outlook, PlanModel

LARGEST_PLANNED_LOG_RATIO = 600.0
"""Log ratios beyond this are taken for it, so that nothing overflows."""


class RatioMoves(NamedTuple):
    """Means under the safe policy of |ρ − 1| and ρ·|ρ − 1|, where an action is harmful, or not.

    An action counts as harmful by its loss over the bound, and as harmless by the rest.
    """

    harmful: tuple[float, float]
    harmless: tuple[float, float]


@dataclass(frozen=True)
class MixModel(PlanModel):
    """What to expect of mix; the moves of ratios are those of lognormal ones if not given."""

    moves: RatioMoves | None = None

    def outlook(self, alpha: float, rows: int) -> Outlook:
        """Where the expected condition fails, and the promise to expect there."""
        safe_risk, optimized_risk = self.harmful * self.bound, self.harmful_optimized * self.bound
        room = rows * (alpha - safe_risk) - (self.bound - alpha)
        if room < 0:
            return Outlook(alpha, 0.0, self.bound)
        largest = math.exp(min(self.largest_log_ratio(rows), LARGEST_PLANNED_LOG_RATIO))
        slope = rows * (optimized_risk - alpha) + (self.bound - alpha) * largest
        existence = self.existence(alpha, rows)
        if slope <= 0:
            return Outlook(alpha, math.inf, alpha + existence)
        beta = room / slope
        total = rows + (1 + beta * largest) / (1 + beta)
        stability = rows * self._moved(alpha, beta) / (slope * total * (1 + beta) ** 2)
        stated = alpha + max(alpha, self.bound - alpha) * stability + existence
        return Outlook(alpha, beta, min(self.bound, stated))

    def _moved(self, alpha: float, beta: float) -> float:
        """The mean of |loss − alpha|·(1 + beta·ratio)·|ratio − 1| under the safe policy."""
        moves = self.moves or RatioMoves(
            self._lognormal(self.harmful_optimized, self.harmful),
            self._lognormal(1 - self.harmful_optimized, 1 - self.harmful),
        )
        harmful, harmless = (first + beta * second for first, second in moves)
        return (self.bound - alpha) * harmful + alpha * harmless

    def _lognormal(self, optimized: float, safe: float) -> tuple[float, float]:
        """The moves of actions that have these shares, in closed form: the parts above 1, twice."""
        from scipy.special import ndtr

        center, spread = self.center(optimized, safe), self.spread
        if math.isinf(center):
            return safe, 0.0
        powers = np.arange(3)
        log_means = np.minimum(
            powers * center + (powers * spread) ** 2 / 2, LARGEST_PLANNED_LOG_RATIO
        )
        means = np.exp(log_means)
        moves = np.diff(means * (2 * ndtr(center / spread + powers * spread) - 1))
        return safe * float(moves[0]), safe * float(moves[1])
