"""The first crossing of a function, found with a certificate and few passes over the rows.

What `tether.control.solvers.certified_search` does one interval at a time is done for many at
once: every pass bounds the function on a grid of intervals, and at their ends. Intervals with a
bound of at most zero are certified; those before the first end that fails, and not certified, are
divided in the next pass. Once the crossing lies in a narrow interval, points around the root of
the secant are evaluated instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tether.control.solvers.certified_search import MIN_INTERVAL

INTERVALS_PER_PASS = 96
"""How many intervals a pass bounds for each function."""
ROOT_POINTS = 25
"""How many points around the expected root a pass evaluates, on each side."""
LOCATED = 2e-12
"""How closely a root is located, in log beta."""
MAX_SEARCH_PASSES = 60
"""The most passes of a search, which then returns what is certified."""

Interval = tuple[float, float]


@dataclass
class Search:
    """One search: the intervals that are still open, in order, and what is known at their ends."""

    pending: list[Interval]
    value: dict[float, float] = field(default_factory=dict)
    bracket: Interval | None = None
    answer: float | None = None
    done: bool = False

    @property
    def crossing(self) -> float:
        """The largest number up to which all is known to pass; inf if everything passes."""
        if not self.done and self.pending:
            return self.pending[0][0]
        return np.inf if self.answer is None else self.answer

    def wanted(self) -> list[Interval]:
        """What the next pass must evaluate: intervals, and points as intervals without width."""
        if self.done:
            return []
        if self.bracket is not None:
            return [(point, point) for point in self._root_points(*self.bracket)]
        count = max(2, INTERVALS_PER_PASS // len(self.pending))
        wanted: list[Interval] = []
        for left, right in self.pending[: INTERVALS_PER_PASS // 2]:
            narrow = right - left <= MIN_INTERVAL
            points = np.linspace(left, right, 2 if narrow else count + 1)
            points[0], points[-1] = left, right
            wanted += list(zip(points[:-1].tolist(), points[1:].tolist(), strict=True))
        return [*wanted, *((end, end) for end in {x for pair in wanted for x in pair})]

    def take(self, bounds: dict[Interval, float]) -> None:
        """Take what was wanted."""
        self.value |= {left: value for (left, right), value in bounds.items() if left == right}
        if self.bracket is not None:
            self._narrow()
            return
        examined = self.pending[: INTERVALS_PER_PASS // 2]
        later = self.pending[INTERVALS_PER_PASS // 2 :]
        inside = sorted(
            interval
            for interval in bounds
            if interval[0] < interval[1]
            and any(left <= interval[0] and interval[1] <= right for left, right in examined)
        )
        if self.value[inside[0][0]] > 0:
            self.answer, self.done = inside[0][0], True
            return
        pending: list[Interval] = []
        for left, right in inside:
            fails = self.value[right] > 0
            if bounds[left, right] <= 0 and not fails:
                continue
            if right - left > MIN_INTERVAL:
                pending.append((left, right))
            elif fails and not pending:
                self._enclose(left, right)
                return
            elif fails:
                pending.append((left, right))
            if fails:
                later = []
                break
        self.pending = pending + later
        if not self.pending:
            self.done = True

    def _root_points(self, left: float, right: float) -> list[float]:
        """Even points of a bracket, and points that close in on the root of its secant."""
        low, high = self.value[left], self.value[right]
        share = -low / (high - low) if np.isfinite(high - low) and high > low else 0.5
        root = left + (right - left) * min(max(share, 0.0), 1.0)
        steps = (right - left) * np.logspace(-9, 0, ROOT_POINTS)
        points = np.concatenate(([root], root - steps, root + steps, np.linspace(left, right, 18)))
        return sorted({float(point) for point in points if left < point < right})

    def _narrow(self) -> None:
        """The first part of the bracket at whose end the function is positive."""
        assert self.bracket is not None
        left, right = self.bracket
        points = sorted(point for point in self.value if left <= point <= right)
        first = next(k for k, point in enumerate(points) if self.value[point] > 0 and k)
        narrower = (points[first - 1], points[first])
        located = narrower[1] - narrower[0] <= LOCATED * max(1.0, abs(narrower[0]))
        if located or narrower == self.bracket:
            self.answer, self.done = narrower[0], True
        else:
            self._enclose(*narrower)

    def _enclose(self, left: float, right: float) -> None:
        """The crossing is in a bracket; at its left end where there is no number between."""
        self.bracket = (left, right)
        if not self._root_points(left, right):
            self.answer, self.done = left, True
