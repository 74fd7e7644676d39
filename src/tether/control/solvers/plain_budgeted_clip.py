"""The condition of budgeted clip with draws as plain sums.

A weight is (S·min(ρ, β)/min(β, 1) + D)·(safe/mixture), with S and D averages over the draws of its
cell. Its first factor falls with beta below β = 1 while S and D rise, and the reverse above, so the
two ends of an interval bound it. Ratios of any size will do: one that is zero or infinite as a
float is clipped, or counts for less than e^−500 beside sums that are kept above `MIN_PLAIN_TOTAL`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from tether._core.types import Floats
from tether.control.context_draws import MAX_PLAIN_LOG
from tether.control.densities import BudgetedDensities
from tether.control.families import LAST_LOG_BETA_OF_SAFE
from tether.control.solvers.plain_sums import Bound, Cells, PlainSums

if TYPE_CHECKING:
    from tether.control.problem import Problem


class PlainBudgetedClip(PlainSums):
    """Sums of weights of budgeted clip, with plain averages over draws."""

    def __init__(self, problem: Problem, amounts: Floats, densities: BudgetedDensities) -> None:
        super().__init__(problem, amounts)
        self.averages = densities.averages

    @classmethod
    def build(cls, problem: Problem, amounts: Floats) -> Self | None:
        """None where the problem is another one, or its mixture leaves the range of floats."""
        densities = problem.densities
        if not isinstance(densities, BudgetedDensities):
            return None
        constant = problem.test_weight.constant
        logs = (problem.log_base, problem.candidates.log_base, np.log(constant or 1.0))
        fits = all(bool((np.abs(part) <= MAX_PLAIN_LOG).all()) for part in logs)
        return cls(problem, amounts, densities) if fits else None

    def fits(self, left: float, right: float) -> bool:
        """Whether both betas are plain numbers far from the ends of the range of floats."""
        return max(abs(left), abs(right)) <= MAX_PLAIN_LOG

    def bound(self, left: float, right: float) -> Bound:
        """Bounds from the ends of the interval, apart on either side of β = 1."""
        if left < 0 <= right:
            below, above = self.bound(left, LAST_LOG_BETA_OF_SAFE), self.bound(0.0, right)

            def across(ratio: Floats, cell: Cells) -> tuple[Floats, Floats]:
                one, other = below(ratio, cell), above(ratio, cell)
                return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])

            return across
        fewest, most = (left, right) if right < 0 else (right, left)
        fewest_beta, most_beta = float(np.exp(fewest)), float(np.exp(most))
        low_averages, high_averages = self.averages(fewest), self.averages(most)

        def bounds(ratio: Floats, cell: Cells) -> tuple[Floats, Floats]:
            low = _ratios(ratio, most_beta, low_averages, cell)
            if left == right:
                return low, low
            return low, _ratios(ratio, fewest_beta, high_averages, cell)

        return bounds


def _ratios(ratio: Floats, beta: float, averages: tuple[Floats, Floats], cell: Cells) -> Floats:
    """S·min(ρ, β)/min(β, 1) + D."""
    tries, fallback = averages
    found = np.minimum(ratio, beta)
    if beta < 1:
        found *= 1 / beta
    found *= tries[cell]
    found += fallback[cell]
    return found
