"""The largest betas with contexts: a certified search in a few passes over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether.control.constraint import Constraint
from tether.control.families import LAST_LOG_BETA_OF_SAFE
from tether.control.parts.grid_search import MAX_SEARCH_PASSES, Interval, Search
from tether.control.parts.interval_sums import Bounds, SumIntervals
from tether.control.parts.left_out_rows import MoveRows
from tether.control.parts.weights import WeightsOfPart
from tether.control.solvers.search import LEAVE_ONE_OUT_POINTS

if TYPE_CHECKING:
    from tether.control.parts.diagnostics import DiagnosticsInParts
    from tether.control.parts.problem import ProblemInParts

LEFT_OUT_STEP = 0.25
"""A crossing is interpolated in a step of log beta that is so long, or in one of `MOST_STEPS`."""
MOST_STEPS = 256
"""The most steps of log beta in a pass that leaves out rows: each takes a number for each row."""


class SearchSolver:
    """The largest betas of several constraints, and what leaving out a row would change."""

    def __init__(self, problem: ProblemInParts, constraints: tuple[Constraint, ...]) -> None:
        self.problem, self.constraints = problem, constraints
        self.weights = WeightsOfPart(
            problem.family, problem.test_weight, problem.blend, direct=False
        )

    def bounds(self, intervals: Sequence[Interval]) -> Bounds:
        """The condition on several intervals, in one pass."""
        kernel = SumIntervals(self.weights, self.constraints, tuple(intervals))
        (found,) = self.problem.log.reduce(kernel)
        return Bounds.finish(found, self.constraints)

    def largest(self) -> dict[str, float]:
        """Log of the largest beta that each constraint allows; −inf where it allows none."""
        searches = self._searches([(number, None) for number in range(len(self.constraints))])
        lo, _ = self.problem.search_range()
        return {
            each.name: -np.inf if search.value[lo] > 0 else search.crossing
            for each, search in zip(self.constraints, searches, strict=True)
        }

    def _searches(self, targets: list[tuple[int, str | None]]) -> list[Search]:
        """Searches for the first crossing of each function from the safest beta on."""
        lo, hi = self.problem.search_range()
        at_one = [point for point in (LAST_LOG_BETA_OF_SAFE, 0.0) if lo < point < hi]
        points = [lo, *at_one, hi]
        start = list(pairwise(points))
        searches = [Search(list(start)) for _ in targets]
        last = {hi} if self.problem.test_weight.grows else set()
        for _ in range(MAX_SEARCH_PASSES):
            wanted = sorted({each for search in searches for each in search.wanted()})
            if not wanted:
                break
            bounds = self.bounds(wanted)
            for search, (number, without) in zip(searches, targets, strict=True):
                own = set(search.wanted())
                excess = bounds.excess(number, without)
                pairs = zip(wanted, excess.tolist(), strict=True)
                if own:
                    search.take({each: value for each, value in pairs if each in own})
                if search.done and search.answer is None and last:
                    self._extend(search, bounds, wanted, number, hi)
        return searches

    def _extend(
        self, search: Search, bounds: Bounds, wanted: list[Interval], number: int, hi: float
    ) -> None:
        """The analytic test weight grows with beta: go on to where it must fail."""
        if (hi, hi) not in wanted or any(point > hi for point in search.value):
            return
        k = wanted.index((hi, hi))
        room = bounds.log_n[k, number] - np.log(self.constraints[number].worst) - bounds.test[k]
        if np.isfinite(room):
            search.pending = [(hi, hi + max(0.0, float(room)) + 1.0)]
            search.done = False

    @cached_property
    def _limits(self) -> list[tuple[float, float]]:
        """Of each constraint, the earliest and the latest crossing without any one row."""
        _, hi = self.problem.search_range()
        numbers = range(len(self.constraints))
        found = self._searches([(k, side) for k in numbers for side in ("below", "above")])
        ends = [hi if search.crossing == np.inf else search.crossing for search in found]
        return [(ends[2 * k], max(ends[2 * k], ends[2 * k + 1])) for k in numbers]

    def stability(self, measured: DiagnosticsInParts) -> float:
        """How much the policy moves when one row is left out, from the rows' own weights."""
        lo, hi = self.problem.search_range()
        grids = [_grid(*each) for each in self._limits]
        union = np.unique(np.concatenate(grids))
        at_points = self.bounds([(point, point) for point in union.tolist()])
        levels = []
        for number, grid in enumerate(grids):
            place = np.searchsorted(union, grid)
            levels.append((grid, at_points.log_p[place, number], at_points.log_n[place, number]))
        at = float(np.clip(measured.log_beta, lo, hi))
        kernel = MoveRows(self.weights, self.constraints, tuple(levels), at, (lo, hi))
        (found,) = self.problem.log.reduce(kernel)
        weight, moved = found.logs
        total = np.logaddexp(weight, measured.log_test_weight(at))
        return float(np.exp(moved - total))


def _grid(earliest: float, latest: float) -> Floats:
    """Points of one pass at which rows are left out: more where the crossings are far apart."""
    at_one = [t for t in (LAST_LOG_BETA_OF_SAFE, 0.0) if earliest < t < latest]
    steps = int(min((latest - earliest) / LEFT_OUT_STEP, MOST_STEPS)) + 1
    even = np.linspace(earliest, latest, max(LEAVE_ONE_OUT_POINTS, steps))
    return np.unique(np.append(even, at_one))
