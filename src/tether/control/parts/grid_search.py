"""The first crossing of a function, found with a certificate and few passes over the rows.

What `tether.control.solvers.certified_search` does one interval at a time is done for many at
once: every pass bounds the function on intervals, and at their ends. Intervals with a bound of at
most zero are certified; those before the first end that fails, and not certified, are halved
several times in the next pass, at the same points as in memory. Once the crossing lies in a narrow
interval, points around the root of the secant are evaluated instead.

Where the function stays at zero over a range, no bound certifies it, and all narrow intervals of
the range are examined. So a search that is not done after a few passes takes four times as many
intervals in each further one, and narrow ones at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tether.control.solvers.certified_search import MAX_INTERVALS, MIN_INTERVAL

INTERVALS_PER_PASS = 128
"""How many intervals a pass bounds for each function, at first."""
MOST_PER_PASS = 4096
"""How many a later pass bounds."""
PASSES_BEFORE_MORE = 4
"""After so many passes there are four times as many in each further one."""
ROOT_POINTS = 25
"""How many points around the expected root a pass evaluates, on each side."""
LOCATED = 2e-12
"""How closely a root is located, in log beta."""

Interval = tuple[float, float]


@dataclass
class Search:
    """One search: the intervals that are still open, in order, and what is known at their ends."""

    pending: list[Interval]
    value: dict[float, float] = field(default_factory=dict)
    asked: list[Interval] = field(default_factory=list)
    bracket: Interval | None = None
    answer: float | None = None
    done: bool = False
    passes: int = 0
    examined: int = 0

    @property
    def crossing(self) -> float:
        """The largest number up to which all is known to pass; inf if everything passes."""
        assert self.done
        return np.inf if self.answer is None else self.answer

    @property
    def last(self) -> float:
        """The largest number at which the function is known."""
        return max(self.value)

    def wanted(self) -> list[Interval]:
        """What the next pass must evaluate: intervals, and points as intervals without width."""
        if self.done:
            return []
        if self.bracket is not None:
            return [(point, point) for point in self._root_points(*self.bracket)]
        more = max(0, self.passes - PASSES_BEFORE_MORE)
        room = min(INTERVALS_PER_PASS << 2 * more, MOST_PER_PASS)
        # Later on no bound is expected to certify anything before intervals are narrow.
        each = room if more else max(2, room // len(self.pending))
        self.asked, taken = [], 0
        while taken < len(self.pending) and len(self.asked) < room:
            self.asked += _halved(self.pending[taken], each.bit_length() - 1)
            taken += 1
        self.pending = self.pending[taken:]
        wide = [(left, right) for left, right in self.asked if right - left > MIN_INTERVAL]
        ends = {end for pair in self.asked for end in pair}
        known = ends & self.value.keys() if wide or ends - self.value.keys() else set()
        return [*wide, *((end, end) for end in ends - known)]

    def take(self, bounds: dict[Interval, float]) -> None:
        """Take what was wanted."""
        self.value |= {left: value for (left, right), value in bounds.items() if left == right}
        if self.bracket is not None:
            self._narrow()
            return
        self.passes += 1
        self.examined += len(self.asked)
        if self.value[self.asked[0][0]] > 0:
            self.answer, self.done = self.asked[0][0], True
            return
        doubtful: list[Interval] = []
        for left, right in self.asked:
            fails = self.value[right] > 0
            narrow = right - left <= MIN_INTERVAL
            if not fails and (narrow or bounds[left, right] <= 0):
                continue
            if narrow and not doubtful:
                self._enclose(left, right)
                return
            doubtful.append((left, right))
            if fails:
                self.pending = []
                break
        self.pending = doubtful + self.pending
        if not self.pending:
            self.done = True
        elif self.examined > MAX_INTERVALS // 2:
            self.answer, self.done = self.pending[0][0], True

    def go_on(self, left: float, right: float) -> None:
        """Search a further interval, after everything before it has passed."""
        self.pending, self.done = ([(left, right)], False) if right > left else ([], True)

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


def _halved(interval: Interval, times: int) -> list[Interval]:
    """An interval halved some times, as far as its parts are wide."""
    points = np.array(interval)
    for _ in range(times):
        wide = np.diff(points) > MIN_INTERVAL
        if not wide.any():
            break
        middles = (points[:-1] + points[1:]) / 2
        points = np.sort(np.append(points, middles[wide]))
    return list(zip(points[:-1].tolist(), points[1:].tolist(), strict=True))
