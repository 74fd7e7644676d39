"""The exact solver for mix: a straight line plus the upper envelope of straight lines.

Multiplied by (1 + β), the condition of mix reads

    Σ_i a_i·(1 + β·ρ_i)  +  max_j u_j·(1 + β·ρ_j)  ≤  0

with a_i and u_j as for clip. The left side is convex in β, so the condition holds on one interval
that starts at zero, and fails first where the first of its lines does. Contexts do not matter,
since mix has no normalizer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tether._core.ties import SUM_ROUNDING, without_rounding
from tether._core.types import Floats
from tether.control.solvers.segments import Terms, condition_terms

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem


def largest(problem: Problem, constraint: Constraint) -> float:
    """Log of the largest beta that a constraint allows; −inf where it allows none."""
    return Lines.build(_terms(problem, constraint)).first_crossing()


def leave_one_out(problem: Problem, constraint: Constraint) -> Floats:
    """Log of the largest beta without each row of the log in turn."""
    return Lines.build(_terms(problem, constraint)).without_each()


def risks(problem: Problem, constraint: Constraint, log_beta: Floats) -> Floats:
    """The calibrated risk at many betas: the left side of the condition is linear in alpha.

    From alpha = 0, where it is the weighted sum of the losses, to alpha = B it decreases by B times
    the sum of the weights.
    """
    if problem.test_weight.constant is not None:
        return np.array([problem.risk(constraint, point) for point in log_beta])
    shift = max(problem.span[1], float(problem.candidates.log_ratio.max()))
    at_zero, at_bound = (
        Lines.build(_terms(problem, constraint.at(alpha)), shift).value(log_beta)
        for alpha in (0.0, constraint.bound)
    )
    return np.asarray(constraint.bound * at_zero / (at_zero - at_bound))


def _terms(problem: Problem, constraint: Constraint) -> Terms:
    """The terms of the condition; a constant test weight is one top with a ratio of one."""
    terms = condition_terms(problem, constraint)
    constant = problem.test_weight.constant
    if constant is None:
        return terms
    test_amount = constraint.worst * np.exp(-terms.log_scale) * constant
    return replace(terms, top_ratio=np.zeros(1), top_amount=np.array([test_amount]))


@dataclass(frozen=True)
class Lines:
    """The condition of mix, Σ(level + γ·slope) + max(tops), with γ = β·e^shift.

    `below` is what the negative levels add up to, without its sign.
    """

    level: Floats
    slope: Floats
    top_level: Floats
    top_slope: Floats
    shift: float
    below: float = 0.0

    @classmethod
    def build(cls, terms: Terms, shift: float | None = None) -> Lines:
        """The lines of rows and tops, scaled by the largest ratio with a nonzero amount."""
        highest = max(
            terms.ratio.max(initial=-np.inf, where=terms.amount != 0),
            terms.top_ratio.max(initial=-np.inf, where=terms.top_amount != 0),
        )
        if shift is None:
            shift = float(highest) if np.isfinite(highest) else 0.0
        return cls(
            level=terms.amount,
            slope=terms.amount * np.exp(np.minimum(terms.ratio - shift, 0.0)),
            top_level=terms.top_amount,
            top_slope=terms.top_amount * np.exp(np.minimum(terms.top_ratio - shift, 0.0)),
            shift=shift,
            below=-float(np.minimum(terms.amount, 0.0).sum()),
        )

    def first_crossing(self) -> float:
        """Log of the largest beta that passes, by Newton's method, exact for convex polylines."""
        level, slope = float(self.level.sum()), float(self.slope.sum())
        highest = float(self.top_level.max(initial=0.0))
        excess, top_level = level + highest, self.top_level - highest
        settled = without_rounding(excess, self.below)
        if settled != excess:  # rounding must not choose among tops that are equal either
            top_level = np.where(top_level >= -SUM_ROUNDING * self.below, 0.0, top_level)
        if level >= 0 or settled > 0:
            return -np.inf
        smallest_root = np.inf
        active = int(np.argmax(self.top_slope))
        while True:
            total_slope = slope + self.top_slope[active]
            root = -(settled + top_level[active]) / total_slope if total_slope > 0 else np.inf
            if root >= smallest_root:
                break
            smallest_root = root
            active = int(np.argmax(top_level + smallest_root * self.top_slope))
        return _log(smallest_root) - self.shift

    def value(self, log_beta: Floats) -> Floats:
        """The left side of the condition over max(1, γ), so that it does not overflow."""
        log_gamma = log_beta + self.shift
        log_divisor = np.maximum(log_gamma, 0.0)
        level_factors, slope_factors = np.exp(-log_divisor), np.exp(log_gamma - log_divisor)
        tops = [
            (level_factor * self.top_level + slope_factor * self.top_slope).max(initial=0.0)
            for level_factor, slope_factor in zip(level_factors, slope_factors, strict=True)
        ]
        rows = self.level.sum() * level_factors + self.slope.sum() * slope_factors
        return np.asarray(rows + tops)

    def without_each(self) -> Floats:
        """Log of the largest beta with each row left out in turn."""
        level, slope = _others(self.level), _others(self.slope)
        none_passes = (level >= 0) | (level + self.top_level.max(initial=0.0) > 0)
        # No crossing lies before that of the highest line, or after that of the lowest.
        ends = (self._without(pick(level), pick(slope)) for pick in (np.max, np.min))
        smallest_root = np.full(len(level), np.inf)
        for top in self._active(*ends):
            total_slope = slope + self.top_slope[top]
            with np.errstate(divide="ignore", invalid="ignore"):
                root = -(level + self.top_level[top]) / total_slope
            root = np.where(total_slope > 0, np.maximum(root, 0.0), np.inf)
            smallest_root = np.minimum(smallest_root, root)
        with np.errstate(divide="ignore"):
            return np.where(none_passes, -np.inf, np.log(smallest_root) - self.shift)

    def _without(self, level: float, slope: float) -> float:
        """The crossing if the rows add up to one given line."""
        rows = (np.array([level]), np.array([slope]))
        return float(np.exp(Lines(*rows, self.top_level, self.top_slope, 0.0).first_crossing()))

    def _active(self, lo: float, hi: float) -> set[int]:
        """The tops that are highest somewhere in [lo, hi]."""
        left = _highest(self.top_level, self.top_slope, lo)
        right = _highest(self.top_level, self.top_slope, hi)
        active, pending = {left, right}, [(left, right)]
        while pending:
            left, right = pending.pop()
            rise = self.top_slope[right] - self.top_slope[left]
            if left == right or rise <= 0:
                continue
            meet = (self.top_level[left] - self.top_level[right]) / rise
            middle = _highest(self.top_level, self.top_slope, meet)
            if middle not in active:
                active.add(middle)
                pending += [(left, middle), (middle, right)]
        return active


def _others(values: Floats) -> Floats:
    """The sum of all other values, not as a difference, which one large value would cancel."""
    before = np.concatenate(([0.0], np.cumsum(values)[:-1]))
    after = np.concatenate((np.cumsum(values[::-1])[:-1][::-1], [0.0]))
    return before + after


def _highest(level: Floats, slope: Floats, at: float) -> int:
    """The index of the highest line at one point; at infinity, of the steepest."""
    return int(np.argmax(slope if np.isinf(at) else level + at * slope))


def _log(value: float) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(value))
