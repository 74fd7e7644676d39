"""Bounds on every weight while beta moves through an interval: what certifies the search.

A family that knows bounds on its ratio (`Family.log_ratio_bounds`) is certified by them. Any other
family with smoothness K moves by at most e^(K·d) over an interval of width d.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether._core.blocks import map_blocks
from tether._core.types import Floats, Integers
from tether.control.families import is_of_package

if TYPE_CHECKING:
    from tether.control.problem import Problem


def weight_bounds(problem: Problem, left: float, right: float) -> tuple[Floats, Floats, float]:
    """Log-weights of the rows from below and from above, and of the test point from above."""
    if np.isfinite(left):
        bounds = _row_bounds(problem, left, right)
        if bounds is not None:
            return *bounds, _test_weight_bound(problem, left, right)
    rows_left, test_left = problem.log_weights(left)
    if left == right:
        return rows_left, rows_left, test_left
    rows_right, test_right = problem.log_weights(right)
    known, width = problem.family.smoothness, right - left
    slack = abs(test_right - test_left) if known is None else known * width / 2
    rows = _between_ends(rows_left, rows_right, known, width)
    return *rows, (test_left + test_right) / 2 + slack


def bounds_of_rows(
    problem: Problem, left: float, right: float, rows: Integers
) -> tuple[Floats, Floats]:
    """Log-weights of some rows from below and from above."""
    cell, base = problem.densities.row[rows], problem.log_base
    if left == right:
        scores = problem.log.log_safe[rows], problem.log.log_optimized[rows]
        at_point = problem.densities.log_density(*scores, cell, left) - problem.log_mix[rows]
        return at_point, at_point
    found = problem.densities.log_ratio_bounds(problem.log_ratio[rows], cell, left, right)
    if found is None:
        first, last = (problem.log_weights(end)[0][rows] for end in (left, right))
        return _between_ends(first, last, problem.family.smoothness, right - left)
    own_base = base if isinstance(base, float) else base[rows]
    return found[0] + own_base, found[1] + own_base


def _between_ends(
    at_left: Floats, at_right: Floats, smoothness: float | None, width: float
) -> tuple[Floats, Floats]:
    """Bounds on log-weights from those at both ends of an interval.

    Without a stated smoothness, twice the change across the interval takes its place.
    """
    with np.errstate(invalid="ignore"):
        middle = (at_left + at_right) / 2
        spread = np.abs(at_right - at_left) if smoothness is None else smoothness * width / 2
        spread = np.where(np.isfinite(middle), spread, 0.0)
    return middle - spread, middle + spread


def certified(problem: Problem) -> bool:
    """Whether the bounds are known rather than guessed from the ends of an interval."""
    if problem.family.smoothness is not None:
        return True
    middle = np.zeros(1)
    return problem.family.log_ratio_bounds(middle, 0.0, 0.0, lambda _: middle) is not None


def _row_bounds(problem: Problem, left: float, right: float) -> tuple[Floats, Floats] | None:
    """Log-weights of the rows from below and from above; None where the family knows no bounds."""
    ratio, cell, base = problem.log_ratio, problem.densities.row, problem.log_base
    low, high = np.empty(len(ratio)), np.empty(len(ratio))

    def bound(block: slice) -> bool:
        found = problem.densities.log_ratio_bounds(ratio[block], cell[block], left, right)
        if found is None:
            return False
        own_base = base if isinstance(base, float) else base[block]
        np.add(found[0], own_base, out=low[block])
        np.add(found[1], own_base, out=high[block])
        return True

    if not is_of_package(problem.family):  # a user's family may not allow several threads
        return (low, high) if bound(slice(0, len(ratio))) else None
    bound(slice(0, 1))  # keeps what depends on beta alone, which all blocks read
    return (low, high) if all(map_blocks(bound, len(ratio))) else None


def _test_weight_bound(problem: Problem, left: float, right: float) -> float:
    if problem.test_weight.constant is not None:
        return float(np.log(problem.test_weight.constant))
    points = problem.candidates
    bounds = problem.densities.log_ratio_bounds(points.log_ratio, points.cell, left, right)
    assert bounds is not None
    return float((bounds[1] + points.log_base).max())
