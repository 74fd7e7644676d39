"""The largest betas with contexts: a certified search in a few passes over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tether.control.constraint import Constraint
from tether.control.families import LAST_LOG_BETA_OF_SAFE
from tether.control.left_out import Levels, step_points
from tether.control.parts.grid_search import Interval, Search
from tether.control.parts.interval_sums import Bounds, SumIntervals
from tether.control.parts.left_out_rows import MoveRows
from tether.control.parts.weights import WeightsOfPart
from tether.control.solvers.certified_search import MIN_INTERVAL

if TYPE_CHECKING:
    from tether.control.parts.diagnostics import DiagnosticsInParts
    from tether.control.parts.problem import ProblemInParts


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
        found = {
            each.name: -np.inf if search.value[lo] > 0 else search.crossing
            for each, search in zip(self.constraints, searches, strict=True)
        }
        if not self.problem.family.clips and np.inf in found.values():
            # Clip saturates for certain; what a user's family says of itself is checked.
            at_end = self.bounds([(np.inf, np.inf)])
            for number, each in enumerate(self.constraints):
                if found[each.name] == np.inf and at_end.excess(number, None)[0] > 0:
                    found[each.name] = searches[number].last
        return found

    def _searches(self, targets: list[tuple[int, str | None]]) -> list[Search]:
        """Searches for the first crossing of each function from the safest beta on."""
        lo, hi = self.problem.search_range()
        at_one = [point for point in (LAST_LOG_BETA_OF_SAFE, 0.0) if lo < point < hi]
        points = [lo, *at_one, hi]
        start = list(pairwise(points))
        searches = [Search(list(start)) for _ in targets]
        beyond = {k: hi for k in range(len(targets)) if self.problem.test_weight.grows}
        while wants := {k: each for k, search in enumerate(searches) if (each := search.wanted())}:
            asked = sorted({each for wanted in wants.values() for each in wanted})
            place, bounds = {each: k for k, each in enumerate(asked)}, self.bounds(asked)
            for k, wanted in wants.items():
                search, (number, without) = searches[k], targets[k]
                excess = bounds.excess(number, without)
                search.take({each: float(excess[place[each]]) for each in wanted})
                if k in beyond and (hi, hi) in wanted:
                    beyond[k] = hi + bounds.room(number, place[hi, hi])
                if search.done and search.answer is None and k in beyond:
                    # The analytic test weight grows with beta: go on to where it must fail.
                    search.go_on(hi, beyond.pop(k))
        return searches

    @cached_property
    def _limits(self) -> tuple[float, float]:
        """The earliest and the latest largest beta of all constraints without any one row."""
        numbers = range(len(self.constraints))
        found = self._searches([(k, side) for side in ("below", "above") for k in numbers])
        ends = [search.crossing if search.crossing < np.inf else search.last for search in found]
        earliest = min(ends[: len(numbers)])
        return earliest, max(earliest, min(ends[len(numbers) :]))

    def stability(self, measured: DiagnosticsInParts) -> float:
        """How much the policy moves when one row is left out, from the rows' own weights."""
        lo, hi = self.problem.search_range()
        earliest, latest = self._limits
        points = step_points(measured.log_beta, earliest, latest, (lo, max(hi, latest)))
        wide = [step for step in pairwise(points) if step[1] - step[0] > MIN_INTERVAL]
        bounds = self.bounds([*((point, point) for point in points), *wide])
        sums = np.stack((bounds.log_p, bounds.log_n), axis=2).tolist()
        on_wide = dict(zip(wide, sums[len(points) :], strict=True))
        on_step = [None, *(on_wide.get(step) for step in pairwise(points))]
        levels = Levels(points, sums[: len(points)], on_step)
        at = float(np.clip(measured.log_beta, lo, hi))
        (found,) = self.problem.log.reduce(MoveRows(self.weights, self.constraints, levels, at))
        weight, moved = found.logs
        total = np.logaddexp(weight, measured.log_test_weight(at))
        with np.errstate(over="ignore"):
            return float(np.exp(moved - total))
