"""Diagnostics: what a calibration rests on, computed when first needed; its risk along beta."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats
from tether._core.validate import frozen
from tether.control.constraint import Constraint
from tether.control.problem import Problem

CURVE_MARGIN = 3.0
"""How far past the last ratio a curve without breakpoints is drawn, in log beta."""
SMOOTHNESS_POINTS = 257
"""Grid points at which the smoothness is measured."""


def rows_beyond_draws(problem: Problem) -> int:
    """How many rows have a larger ratio than any draw: the test weight may then be too small."""
    if not problem.has_draws:
        return 0
    with np.errstate(invalid="ignore"):
        drawn = problem.draws.log_optimized - problem.draws.log_safe
    top = drawn.max(initial=-np.inf, where=np.isfinite(drawn))
    return int(np.sum(problem.log.log_optimized - problem.log.log_safe > top))


def measured_smoothness(problem: Problem, points: int = SMOOTHNESS_POINTS) -> float:
    """The steepest change of any log-weight per change of log beta, on a grid over the range."""
    grid = np.linspace(*problem.search_range(), points)
    step = (grid[-1] - grid[0]) / (points - 1)
    if step == 0:
        return 0.0
    steepest, previous = 0.0, None
    for log_beta in grid:
        rows, _ = problem.log_weights(log_beta)
        draws = problem.draws.log_weight(problem.family, log_beta, problem.log_psi(log_beta))
        current = np.append(rows, draws)
        if previous is not None:
            with np.errstate(invalid="ignore"):
                change = np.abs(current - previous)
            steepest = max(steepest, float(change.max(initial=0.0, where=np.isfinite(change))))
        previous = current
    return steepest / float(step)


@dataclass(frozen=True)
class Curve:
    """The calibrated risk of one constraint along beta.

    Parameters
    ----------
    log_beta : ndarray of float
        Log betas, in increasing order.
    risk : ndarray of float
        The calibrated risk at each of them.
    """

    log_beta: Floats
    risk: Floats

    @property
    def beta(self) -> Floats:
        """Beta itself; inf where it overflows."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_beta)


def risk_curve(problem: Problem, constraint: Constraint, log_beta: float, points: int) -> Curve:
    """The calibrated risk at the breakpoints, thinned to equal steps of their rank, and at beta."""
    with np.errstate(invalid="ignore"):
        breaks = np.concatenate(
            [part.log_optimized - part.log_safe for part in (problem.log, problem.draws)]
        )
    breaks = np.sort(breaks[np.isfinite(breaks)])
    if len(breaks) and not problem.family.saturates:
        # No breakpoints: the policy changes most where β·ratio passes one, and never stops.
        breaks = np.linspace(-breaks[-1] - CURVE_MARGIN, -breaks[0] + CURVE_MARGIN, points)
    if len(breaks):
        breaks = breaks[np.linspace(0, len(breaks) - 1, points).round().astype(int)]
    grid = np.unique(np.append(breaks, log_beta if np.isfinite(log_beta) else []))
    return Curve(frozen(grid), frozen(problem.solver.risks(problem, constraint, grid)))
