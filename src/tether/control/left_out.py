"""How far each row's weight moves when the row is left out, where betas are found by a search.

Without row i the condition is that of all rows less one term, so from the sums over all rows at
some points of log beta, and on the steps between them, every row can tell by itself where the
condition without it may fail first: in a step at whose right end it fails, or in one that no bound
certifies. Its beta is not located further. What is returned is the largest change of its weight
over these steps, so it is never below the change at the beta without the row. As in the search for
beta itself, a step of at most `MIN_INTERVAL` passes when its right end does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tether._core.types import Booleans, Floats, Integers
from tether.control.constraint import Constraint
from tether.control.families import LAST_LOG_BETA_OF_SAFE
from tether.control.problem import Problem
from tether.control.solvers.certified_search import MIN_INTERVAL
from tether.control.solvers.excess import Excess, Level
from tether.control.solvers.weight_bounds import bounds_of_rows

STEPS_PER_SIDE = 128
"""How many steps of log beta there are below the calibrated one, and above it, at least."""
WIDEST_SIDE = 3.0
"""There are more of them where a side is wide: twice as many if it is 1, up to so wide a side."""
END_WIDTH = 1e-8
"""How wide the steps around the calibrated beta, the earliest and the latest are, relatively."""
ROUNDING_OF_SUMS = 1e-12
"""Differences of sums below this, relative to the sums, may be rounding."""
LARGE_LOG = 40.0
"""Above this, e^x − 1 and e^x are the same float."""

Changes = Callable[[float, float, Integers], Floats]
"""From the ends of a step and some rows to logs of the largest changes of their weights in it."""


@dataclass(frozen=True)
class Levels:
    """Logs of P and N over all rows by constraint: at points, and as bounds on the steps to them.

    The first point has no step, and steps that are narrow need no bounds.
    """

    points: tuple[float, ...]
    at_point: Sequence[Sequence[Level]]
    on_step: Sequence[Sequence[Level] | None]


def step_points(
    log_beta: float, earliest: float, latest: float, within: tuple[float, float]
) -> tuple[float, ...]:
    """Points between the earliest and the latest beta without a row, closer together near beta.

    Betas that several rows share are often beta itself, the earliest or the latest: narrow steps
    enclose these.
    """
    middle = min(max(log_beta, earliest), latest)
    sides = []
    for end in (earliest, latest):
        steps = round(STEPS_PER_SIDE * (1 + min(abs(end - middle), WIDEST_SIDE)))
        sides.append(middle + (end - middle) * np.linspace(0.0, 1.0, steps + 1)[1:-1] ** 2)
    ends = np.array([earliest, middle, latest])
    margin = END_WIDTH / 2 * np.maximum(1.0, np.abs(ends))
    points = np.concatenate((*sides, ends - margin, ends + margin))
    at_one = [t for t in (LAST_LOG_BETA_OF_SAFE, 0.0) if points.min() < t < points.max()]
    points = np.append(points, at_one)
    return tuple(np.unique(np.clip(points, *within)).tolist())


def largest_changes(
    problem: Problem,
    constraints: tuple[Constraint, ...],
    points: tuple[float, ...],
    changes: Changes,
    levels: Levels | None = None,
) -> Floats:
    """Log of the largest change of each row's weight, at any beta that may be the one without it.

    `levels` are those of all rows; without them the rows of the problem are all there are.
    """
    conditions = [Excess(problem, each) for each in constraints]

    def value(left: float, right: float, level: Sequence[Level] | None) -> Floats:
        """The largest of all constraints, without each row; positive where one may fail."""
        own = [None] * len(conditions) if level is None else level
        found = (
            each.without_each(left, right, at) for each, at in zip(conditions, own, strict=True)
        )
        return reduce(np.maximum, found)

    found = np.full(len(problem.log), -np.inf)
    passes = np.ones(len(found), dtype=np.bool_)

    def take(left: float, right: float, rows: Booleans) -> None:
        concerned = np.flatnonzero(rows)
        if len(concerned):
            found[concerned] = np.maximum(found[concerned], changes(left, right, concerned))

    left = points[0]
    for k, right in enumerate(points):
        at_right = value(right, right, None if levels is None else levels.at_point[k])
        doubtful = at_right > -ROUNDING_OF_SUMS
        if right - left > MIN_INTERVAL:
            on_step = None if levels is None else levels.on_step[k]
            doubtful |= value(left, right, on_step) > -ROUNDING_OF_SUMS
        # Weights jump at β = 1, and the last beta that passes is the one before.
        take(left, left if left == LAST_LOG_BETA_OF_SAFE else right, passes & doubtful)
        passes &= at_right <= ROUNDING_OF_SUMS
        if not passes.any():
            return found
        left = right
    take(left, left, passes)
    return found


def own_changes(problem: Problem, here: Floats) -> Changes:
    """The change of a row's own weight, from its log-weight at the calibrated beta."""

    def changes(left: float, right: float, rows: Integers) -> Floats:
        low, high = bounds_of_rows(problem, left, right, rows)
        return np.maximum(log_change(low, here[rows]), log_change(high, here[rows]))

    return changes


def smooth_changes(
    here: Floats, log_beta: float, smoothness: float, reach: tuple[float, float]
) -> Changes:
    """A bound on the change of a row's weight from the smoothness K: w·(e^(K·|move|) − 1)."""
    at = float(np.clip(log_beta, *reach))

    def changes(left: float, right: float, rows: Integers) -> Floats:
        with np.errstate(invalid="ignore"):
            moves = np.abs(np.clip([left, right], *reach) - at)
        furthest = float(np.max(np.where(np.isnan(moves), 0.0, moves)))
        with np.errstate(divide="ignore"):
            grown = float(log_expm1(np.array(smoothness * furthest)))
        return np.where(here[rows] > -np.inf, here[rows] + grown, -np.inf)

    return changes


def log_change(first: Floats, second: Floats) -> Floats:
    """Log of |e^first − e^second|; weights may be zero."""
    larger, smaller = np.maximum(first, second), np.minimum(first, second)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = larger + np.log(-np.expm1(smaller - larger))
    return np.where(larger > -np.inf, change, -np.inf)


def log_expm1(values: Floats) -> Floats:
    """Log of e^x − 1 for x ≥ 0, without overflow."""
    return np.where(values > LARGE_LOG, values, np.log(np.expm1(np.minimum(values, LARGE_LOG))))
