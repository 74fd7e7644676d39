"""The solver for mix: exact, by a straight line plus the upper envelope of straight lines.

Times (1 + β), the condition of mix reads

    Σ_i a_i·(1 + β·ρ_i)  +  max_j u_j·(1 + β·ρ_j)  ≤  0

with a_i and u_j as for clip. It is convex in β, so it holds on one interval from zero, and it fails
first where the first of its lines does. Contexts change nothing: mix has no normalizer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

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
    """The calibrated risk at many betas: the condition's left side is linear in alpha.

    Between an alpha of 0, where it is the sum of the losses, and of B, it falls by B times the sum
    of the weights.
    """
    if problem.test_weight.constant is not None:
        return np.array([problem.risk(constraint, point) for point in log_beta])
    shift = problem.span[1]
    losses, rest = (
        Lines.build(_terms(problem, replace(constraint, alpha=alpha)), shift).value(log_beta)
        for alpha in (0.0, constraint.bound)
    )
    return np.asarray(constraint.bound * losses / (losses - rest))


def _terms(problem: Problem, constraint: Constraint) -> Terms:
    """The terms of the condition; a constant test weight is one top with a ratio of one."""
    terms = condition_terms(problem, constraint)
    constant = problem.test_weight.constant
    if constant is None:
        return terms
    top = (constraint.bound - constraint.alpha) * np.exp(-terms.log_scale) * constant
    return replace(terms, top_ratio=np.zeros(1), top_amount=np.array([top]))


@dataclass(frozen=True)
class Lines:
    """The condition of mix, Σ(level + γ·slope) + max(tops), with γ = β·e^shift."""

    level: Floats
    slope: Floats
    top_level: Floats
    top_slope: Floats
    shift: float

    @classmethod
    def build(cls, terms: Terms, shift: float | None = None) -> Lines:
        """Lines of the rows and of the tops, on one scale: the largest ratio that matters."""
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
        )

    def first_crossing(self) -> float:
        """Log of the largest beta that passes: Newton's method, exact on such functions."""
        level, slope = float(self.level.sum()), float(self.slope.sum())
        if level >= 0 or level + self.top_level.max(initial=0.0) > 0:
            return -np.inf
        reached = np.inf
        active = int(np.argmax(self.top_slope))
        while True:
            steep = slope + self.top_slope[active]
            root = -(level + self.top_level[active]) / steep if steep > 0 else np.inf
            if root >= reached:
                break
            reached = root
            active = int(np.argmax(self.top_level + reached * self.top_slope))
        return _log(reached) - self.shift

    def value(self, log_beta: Floats) -> Floats:
        """The left side of the condition over the larger of 1 and γ, which keeps it a number."""
        log_gamma = log_beta + self.shift
        larger = np.maximum(log_gamma, 0.0)
        still, moved = np.exp(-larger), np.exp(log_gamma - larger)
        tops = [
            (one * self.top_level + other * self.top_slope).max(initial=0.0)
            for one, other in zip(still, moved, strict=True)
        ]
        return np.asarray(self.level.sum() * still + self.slope.sum() * moved + tops)

    def without_each(self) -> Floats:
        """Log of the largest beta with each row left out in turn."""
        level, slope = _others(self.level), _others(self.slope)
        missing = (level >= 0) | (level + self.top_level.max(initial=0.0) > 0)
        # No crossing lies before that of the worst line, or past that of the best.
        ends = (self._without(pick(level), pick(slope)) for pick in (np.max, np.min))
        reached = np.full(len(level), np.inf)
        for top in self._active(*ends):
            steep = slope + self.top_slope[top]
            with np.errstate(divide="ignore", invalid="ignore"):
                root = -(level + self.top_level[top]) / steep
            reached = np.minimum(reached, np.where(steep > 0, np.maximum(root, 0.0), np.inf))
        with np.errstate(divide="ignore"):
            return np.where(missing, -np.inf, np.log(reached) - self.shift)

    def _without(self, level: float, slope: float) -> float:
        rows = (np.array([level]), np.array([slope]))
        return float(np.exp(Lines(*rows, self.top_level, self.top_slope, 0.0).first_crossing()))

    def _active(self, lo: float, hi: float) -> set[int]:
        """The tops that are highest somewhere in [lo, hi]."""
        left = _highest(self.top_level, self.top_slope, lo)
        right = _highest(self.top_level, self.top_slope, hi)
        found, open_ = {left, right}, [(left, right)]
        while open_:
            left, right = open_.pop()
            rise = self.top_slope[right] - self.top_slope[left]
            if left == right or rise <= 0:
                continue
            meet = (self.top_level[left] - self.top_level[right]) / rise
            middle = _highest(self.top_level, self.top_slope, meet)
            if middle not in found:
                found.add(middle)
                open_ += [(left, middle), (middle, right)]
        return found


def _others(values: Floats) -> Floats:
    """The sum of all other values, never as a difference: one value may dwarf the rest."""
    before = np.concatenate(([0.0], np.cumsum(values)[:-1]))
    after = np.concatenate((np.cumsum(values[::-1])[:-1][::-1], [0.0]))
    return before + after


def _highest(level: Floats, slope: Floats, at: float) -> int:
    """The highest line at one point; at infinity the steepest."""
    return int(np.argmax(slope if np.isinf(at) else level + at * slope))


def _log(value: float) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(value))
