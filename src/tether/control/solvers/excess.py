"""The condition as one function of log beta, with bounds on intervals."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats, Integers
from tether.control.densities import BudgetedDensities
from tether.control.solvers.convex_intervals import convex_breaks, is_convex
from tether.control.solvers.plain_budgeted_clip import PlainBudgetedClip
from tether.control.solvers.plain_clip import PlainClip
from tether.control.solvers.plain_sums import MIN_PLAIN_TOTAL, IntervalTotals, PlainSums
from tether.control.solvers.weight_bounds import weight_bounds

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem

Level = tuple[float, float]
"""The logs of P and N."""
MIN_PLAIN_LOG = float(np.log(MIN_PLAIN_TOTAL))
REST_TOLERANCE = 1e-14
"""What is left of a sum, relatively, when it is nothing but rounding."""


class Excess:
    """log P − log N along log beta, which is at most zero where the condition passes.

    P is the weighted sum over rows with a loss above alpha and over the test point, N that over
    rows with a loss below alpha.
    """

    def __init__(self, problem: Problem, constraint: Constraint) -> None:
        self.problem = problem
        self.amounts = constraint.signed(problem.log.loss[constraint.name])
        self.worst, self.log_worst = constraint.worst, float(np.log(constraint.worst))
        with_draws = isinstance(problem.densities, BudgetedDensities)
        kind = PlainBudgetedClip if with_draws else PlainClip
        self.plain: PlainSums | None = kind.build(problem, self.amounts)

    @cached_property
    def above(self) -> Integers:
        """The rows with a loss above alpha."""
        return np.flatnonzero(self.amounts > 0)

    @cached_property
    def below(self) -> Integers:
        """The rows with a loss below alpha."""
        return np.flatnonzero(self.amounts < 0)

    @cached_property
    def log_amounts(self) -> Floats:
        """The logs of the sizes of the amounts."""
        with np.errstate(divide="ignore"):
            return np.log(np.abs(self.amounts))

    @cached_property
    def breaks(self) -> Floats | None:
        """The log betas between which the condition is convex."""
        return convex_breaks(self.problem)

    def __call__(self, log_beta: float) -> float:
        """The excess at one beta."""
        return self.between(log_beta, log_beta)

    def between(self, left: float, right: float, without: str | None = None) -> float:
        """An upper bound on the excess while log beta moves from left to right.

        `without` leaves out the heaviest row: "below" alpha or "above" it. Where the ends decide,
        the larger excess of both is returned, which is positive if any inside is.
        """
        if left < right and without is None and is_convex(self.breaks, left, right):
            return max(self(left), self(right))
        if self.plain is not None and self.plain.fits(left, right):
            totals = self.plain.sums(left, right, heaviest=without is not None)
            if totals is not None:
                return self._plain_between(totals, without)
        low, high, test = weight_bounds(self.problem, left, right)
        log_positive = self.log_amounts[self.above] + high[self.above]
        log_negative = self.log_amounts[self.below] + low[self.below]
        log_p = _log_sum(log_positive, self.log_worst + test)
        log_n = _log_sum(log_negative)
        if without == "below" and len(log_negative):
            heaviest = self.log_amounts[self.below] + high[self.below]
            log_n = _log_less(log_n, float(heaviest.max()))
        if without == "above" and len(log_positive):
            heaviest = self.log_amounts[self.above] + low[self.above]
            log_p = _log_less(log_p, float(heaviest.max()))
        # A condition without a row below alpha has not passed.
        return np.inf if log_n == -np.inf else log_p - log_n

    def _plain_between(self, totals: IntervalTotals, without: str | None) -> float:
        """The same from plain sums."""
        log_p = float(np.log(totals.positive + self.worst * totals.test))
        log_n = float(np.log(totals.negative))
        if without == "below" and totals.heaviest_below > 0:
            log_n = _log_less(log_n, float(np.log(totals.heaviest_below)))
        if without == "above" and totals.heaviest_above > 0:
            log_p = _log_less(log_p, float(np.log(totals.heaviest_above)))
        return np.inf if log_n == -np.inf else log_p - log_n

    def without_each(
        self, left: float, right: float | None = None, level: Level | None = None
    ) -> Floats:
        """P − N without each row in turn, over the larger of both: positive where it fails.

        With `right`, an upper bound on it while log beta moves from left to right. `level` has the
        logs of P and N where the rows are only some of all.
        """
        right = left if right is None else right
        if self.plain is not None and self.plain.fits(left, right):
            own, test = self.plain.terms(left, right)
            if level is None:
                rows = float(own.sum(where=own > 0)), -float(own.sum(where=own < 0))
                with np.errstate(divide="ignore"):
                    level = float(np.log(rows[0] + self.worst * test)), float(np.log(rows[1]))
            if min(level) > MIN_PLAIN_LOG:
                own *= -np.exp(-max(level))
                own += _difference(level)
                return own
        low, high, test = weight_bounds(self.problem, left, right)
        logs = self.log_amounts + np.where(self.amounts > 0, high, low)
        if level is None:
            log_p = _log_sum(logs[self.above], self.log_worst + test)
            level = log_p, _log_sum(logs[self.below])
        if level[1] == -np.inf:  # a condition without a row below alpha has not passed
            return np.full(len(logs), np.inf)
        return _difference(level) - np.sign(self.amounts) * np.exp(logs - max(level))

    def certain_failure(self, hi: float) -> float:
        """A point past hi where the analytic test weight, which grows like beta, must fail."""
        rows, test = self.problem.log_weights(hi)
        room = _log_sum((self.log_amounts + rows)[self.below]) - self.log_worst - test
        return hi + max(0.0, room) + 1.0 if np.isfinite(room) else hi


def _difference(level: Level) -> float:
    """P − N over the larger of both."""
    top = max(level)
    return float(np.exp(level[0] - top) - np.exp(level[1] - top))


def _log_sum(values: Floats, more: float = -np.inf) -> float:
    """Log of a sum of exponentials."""
    top = max(float(values.max(initial=-np.inf)), more)
    if top == -np.inf:
        return top
    return top + float(np.log(np.exp(values - top).sum() + np.exp(more - top)))


def _log_less(log_sum: float, part: float) -> float:
    """Log of a sum with one part taken off; −inf where only rounding is left."""
    rest = -np.expm1(min(part - log_sum, 0.0))
    return log_sum + float(np.log(rest)) if rest > REST_TOLERANCE else -np.inf
