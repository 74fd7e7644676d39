"""The solver for everything without a closed form: a certified search along log beta."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether.control.families import LAST_LOG_BETA_OF_SAFE
from tether.control.solvers.certified_search import first_crossing
from tether.control.solvers.excess import Excess
from tether.control.solvers.weight_bounds import certified

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem

UNCERTIFIED_POINTS = 257
"""How many ratios, and as many even steps, a search without known bounds starts with."""


def largest(problem: Problem, constraint: Constraint) -> float:
    """Log of the largest beta that a constraint allows; −inf where it allows none."""
    excess = Excess(problem, constraint)
    if excess(problem.search_range()[0]) > 0:
        return -np.inf
    points = _starting_points(problem, excess)
    crossing = first_crossing(excess.between, points)
    if crossing is not None:
        return crossing
    # Clip saturates for certain; what a user's family says of itself is checked.
    return np.inf if problem.family.clips or excess(np.inf) <= 0 else points[-1]


def limits_without_row(problem: Problem, constraint: Constraint) -> tuple[float, float]:
    """Logs of the earliest and of the latest largest beta without any one row.

    At one end of the range where no beta passes, or all do.
    """
    excess = Excess(problem, constraint)
    points = _starting_points(problem, excess)

    def crossing(without: str) -> float:
        shifted = partial(excess.between, without=without)
        found = points[0] if shifted(points[0], points[0]) > 0 else first_crossing(shifted, points)
        return points[-1] if found is None else found

    earliest = crossing("below")
    return earliest, max(earliest, crossing("above"))


def risks(problem: Problem, constraint: Constraint, log_beta: Floats) -> Floats:
    """The calibrated risk at many betas, one after the other."""
    return np.array([problem.risk(constraint, point) for point in log_beta])


def _starting_points(problem: Problem, excess: Excess) -> list[float]:
    """The ends of the range, β = 1 from both sides, and ratios where bounds are not known.

    At 1 a sampler's proposals change from one policy to the other, and a weight that is an average
    over proposals jumps. The analytic test weight grows with beta past the range until it must
    fail.
    """
    lo, hi = problem.search_range()
    last = excess.certain_failure(hi) if problem.test_weight.grows else hi
    if certified(problem):
        at_one = [t for t in (LAST_LOG_BETA_OF_SAFE, 0.0) if lo < t < hi]
        return [lo, *at_one, hi, *([last] if last > hi else [])]
    with np.errstate(invalid="ignore"):
        drawn = problem.draws.log_optimized - problem.draws.log_safe
    ratio = np.append(problem.log_ratio, drawn)
    ratio = np.sort(ratio[np.isfinite(ratio)])
    picked = ratio[np.linspace(0, len(ratio) - 1, UNCERTIFIED_POINTS).astype(int)]
    even = np.linspace(lo, last, UNCERTIFIED_POINTS)
    return [float(t) for t in np.unique(np.concatenate((picked, even))) if lo <= t <= last]
