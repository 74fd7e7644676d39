"""The condition with contexts on intervals of log beta: sums of bounds over the rows of a part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats
from tether.control.constraint import Constraint
from tether.control.parts.log_sum import LogSums
from tether.control.parts.rows import LogPart
from tether.control.parts.term_kernels import check_bound
from tether.control.parts.weights import WeightsOfPart
from tether.control.solvers.excess import _log_less
from tether.control.solvers.weight_bounds import weight_bounds

Interval = tuple[float, float]


@dataclass(frozen=True)
class IntervalSums:
    """For each interval and constraint: P and N, and the heaviest row of either; the test weight.

    P is the sum over rows with a loss above alpha, from above; N that over rows below it, from
    below (see `tether.control.solvers.excess`).
    """

    sums: LogSums
    heaviest: Floats
    test: Floats

    def merge(self, other: IntervalSums) -> IntervalSums:
        """Those of both."""
        return IntervalSums(
            self.sums.merge(other.sums),
            np.maximum(self.heaviest, other.heaviest),
            np.maximum(self.test, other.test),
        )


@dataclass(frozen=True)
class SumIntervals:
    """Bounds on the condition of several constraints while log beta is in some intervals."""

    weights: WeightsOfPart
    constraints: tuple[Constraint, ...]
    intervals: tuple[Interval, ...]

    def of(self, part: LogPart) -> IntervalSums:
        """The sums of a part."""
        problem = self.weights.problem(part)
        sides = []
        for each in self.constraints:
            loss = part.loss[each.name]
            check_bound(each, loss, several=len(part.loss) > 1)
            amount = each.signed(loss)
            above, below = np.flatnonzero(amount > 0), np.flatnonzero(amount < 0)
            sides.append((above, np.log(amount[above]), below, np.log(-amount[below])))
        terms: list[Floats] = []
        heaviest = np.full((len(self.intervals), len(sides), 2), -np.inf)
        test = np.full(len(self.intervals), -np.inf)
        for k, (left, right) in enumerate(self.intervals):
            low, high, test[k] = weight_bounds(problem, left, right)
            for c, (above, log_above, below, log_below) in enumerate(sides):
                terms += [log_above + high[above], log_below + low[below]]
                heaviest[k, c, 0] = (log_below + high[below]).max(initial=-np.inf)
                heaviest[k, c, 1] = (log_above + low[above]).max(initial=-np.inf)
        return IntervalSums(LogSums.of(terms), heaviest, test)


@dataclass(frozen=True)
class Bounds:
    """The excess log P − log N on intervals, for each constraint, with or without a row."""

    log_p: Floats
    log_n: Floats
    heaviest: Floats
    test: Floats
    log_worst: Floats

    @classmethod
    def finish(cls, found: IntervalSums, constraints: tuple[Constraint, ...]) -> Bounds:
        """From the sums over all rows."""
        logs = found.sums.logs.reshape(len(found.test), len(constraints), 2)
        worst = np.log([each.worst for each in constraints])
        log_p = np.logaddexp(logs[..., 0], worst + found.test[:, None])
        return cls(log_p, logs[..., 1], found.heaviest, found.test, worst)

    def excess(self, number: int, without: str | None) -> Floats:
        """The excess of one constraint in every interval; `without` leaves out the heaviest row."""
        log_p, log_n = self.log_p[:, number], self.log_n[:, number]
        if without == "below":
            heavy = self.heaviest[:, number, 0]
            pairs = zip(log_n, heavy, strict=True)
            log_n = np.array([_less(total, part) for total, part in pairs])
        if without == "above":
            heavy = self.heaviest[:, number, 1]
            pairs = zip(log_p, heavy, strict=True)
            log_p = np.array([_less(total, part) for total, part in pairs])
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(log_n), np.inf, log_p - log_n)

    def room(self, number: int, interval: int) -> float:
        """How far past a point a test weight that grows with beta must fail; 0 if it need not."""
        worst = self.log_worst[number]
        room = float(self.log_n[interval, number]) - worst - float(self.test[interval])
        return max(0.0, room) + 1.0 if np.isfinite(room) else 0.0


def _less(log_sum: float, part: float) -> float:
    return log_sum if part == -np.inf or log_sum == -np.inf else _log_less(log_sum, part)
