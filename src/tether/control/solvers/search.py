"""The solver for everything without a closed form: a certified search along log beta."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether.control.families import LAST_LOG_BETA_OF_SAFE
from tether.control.solvers.certified_search import MIN_INTERVAL, first_crossing
from tether.control.solvers.excess import Excess
from tether.control.solvers.weight_bounds import certified

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem

UNCERTIFIED_POINTS = 257
"""How many ratios, and as many even steps, a search without known bounds starts with."""
LEAVE_ONE_OUT_POINTS = 65
"""Even steps, and ratios, from the earliest to the latest crossing at which rows are left out."""
LEAVE_ONE_OUT_STEPS = 512
"""Steps between these crossings are divided until one of so many even ones would be as long."""
MAX_CROSSING_STEP = 1 / 64
"""Longer steps of log beta are divided, however far apart the crossings are."""
MAX_LEAVE_ONE_OUT_STEPS = 5000
"""The most steps that are examined before they are no longer divided."""


def largest(problem: Problem, constraint: Constraint) -> float:
    """Log of the largest beta that a constraint allows; −inf where it allows none."""
    excess = Excess(problem, constraint)
    lo, hi = problem.search_range()
    if excess(lo) > 0:
        return -np.inf
    hi = _last_point(excess, problem, hi)
    crossing = first_crossing(excess.between, _starting_points(problem, lo, hi))
    if crossing is not None:
        return crossing
    # Clip saturates for certain; what a user's family says of itself is checked.
    return np.inf if problem.family.clips or excess(np.inf) <= 0 else hi


def leave_one_out(problem: Problem, constraint: Constraint) -> Floats:
    """Log of the largest beta without each row in turn.

    Between the earliest and the latest crossing, steps of log beta are certified for all rows at
    once, or divided. In steps that are not divided further a crossing is interpolated, which may be
    off by a part of the step in either direction; a failure that begins and ends inside one is not
    seen, as in the search for beta itself.
    """
    excess = Excess(problem, constraint)
    lo, hi = problem.search_range()
    hi = _last_point(excess, problem, hi)
    points = _starting_points(problem, lo, hi)

    def crossing(without: str) -> float:
        shifted = partial(excess.between, without=without)
        found = lo if shifted(lo, lo) > 0 else first_crossing(shifted, points)
        return hi if found is None else found

    earliest, latest = crossing("below"), crossing("above")
    at_one = [t for t in (LAST_LOG_BETA_OF_SAFE, 0.0) if earliest < t < latest]
    even = np.linspace(earliest, latest, LEAVE_ONE_OUT_POINTS)
    ratios = _ratios_between(problem, earliest, latest)
    grid = np.unique(np.concatenate((even, ratios, at_one))).tolist()
    shortest = np.clip((latest - earliest) / LEAVE_ONE_OUT_STEPS, MIN_INTERVAL, MAX_CROSSING_STEP)
    examined = 0
    log_beta = np.full(len(problem.log), np.nan)
    known = grid[0], excess.without_each(grid[0])
    log_beta[known[1] > 0] = -np.inf if earliest == lo else earliest
    pending = list(pairwise(grid))[::-1]
    while pending and np.isnan(log_beta).any():
        left, right = pending.pop()
        examined += 1
        if right - left > shortest and examined <= MAX_LEAVE_ONE_OUT_STEPS:
            if (np.isnan(log_beta) & (excess.without_each(left, right) > 0)).any():
                middle = (left + right) / 2
                pending += [(middle, right), (left, middle)]
            continue
        value = excess.without_each(right)
        crossed = np.isnan(log_beta) & (value > 0)
        if crossed.any():
            previous = known[1] if known[0] == left else excess.without_each(left)
            # Without the certificate of the step before, its end might fail already.
            before = np.minimum(previous[crossed], 0.0)
            log_beta[crossed] = interpolate(left, right, before, value[crossed])
        known = right, value
    return np.where(np.isnan(log_beta), np.inf if latest == hi else latest, log_beta)


def interpolate(left: float, right: float, at_left: Floats, at_right: Floats) -> Floats | float:
    """Where functions cross zero between a passing and a failing point, if they are lines there.

    Just below β = 1 they are not: weights jump, and the last passing point is the left one.
    """
    if left == LAST_LOG_BETA_OF_SAFE:
        return left
    return left + (right - left) * (-at_left / (at_right - at_left))


def _ratios_between(problem: Problem, lo: float, hi: float) -> Floats:
    """Quantiles of the rows' log ratios in a wide interval, in which the condition may turn."""
    if hi - lo <= MIN_INTERVAL * LEAVE_ONE_OUT_POINTS:
        return np.empty(0)
    ratio = problem.log_ratio
    ratio = np.sort(ratio[(ratio > lo) & (ratio < hi)])
    places = np.linspace(0, len(ratio) - 1, min(LEAVE_ONE_OUT_POINTS, len(ratio)))
    return np.asarray(ratio[places.astype(int)])


def risks(problem: Problem, constraint: Constraint, log_beta: Floats) -> Floats:
    """The calibrated risk at many betas, one after the other."""
    return np.array([problem.risk(constraint, point) for point in log_beta])


def _last_point(excess: Excess, problem: Problem, hi: float) -> float:
    """Where to stop looking: the analytic test weight grows with beta until it must fail."""
    return excess.certain_failure(hi) if problem.test_weight.grows else hi


def _starting_points(problem: Problem, lo: float, hi: float) -> list[float]:
    """The ends of the range, β = 1 from both sides, and ratios where bounds are not known.

    At 1 a sampler's proposals change from one policy to the other, and a weight that is an average
    over proposals jumps.
    """
    if certified(problem):
        return [lo, *(t for t in (LAST_LOG_BETA_OF_SAFE, 0.0) if lo < t < hi), hi]
    with np.errstate(invalid="ignore"):
        drawn = problem.draws.log_optimized - problem.draws.log_safe
    ratio = np.append(problem.log_ratio, drawn)
    ratio = np.sort(ratio[np.isfinite(ratio)])
    picked = ratio[np.linspace(0, len(ratio) - 1, UNCERTIFIED_POINTS).astype(int)]
    even = np.linspace(lo, hi, UNCERTIFIED_POINTS)
    return [float(t) for t in np.unique(np.concatenate((picked, even))) if lo <= t <= hi]
