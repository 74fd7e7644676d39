"""Diagnostics: what a calibration rests on, computed when first needed."""

from __future__ import annotations

import numpy as np

from tether.control.problem import Problem

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
