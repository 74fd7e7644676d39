"""Sums of bounds on the weights of all rows as plain numbers, where these fit into floats.

They need no logarithm and no exponential of any row, and each block of rows is read once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether._core.blocks import map_blocks
from tether._core.types import Floats, Integers

if TYPE_CHECKING:
    from tether.control.problem import Problem

MIN_PLAIN_TOTAL = float(np.exp(-200.0))
"""Beside a larger total, what underflows to zero is less than rounding."""
Cells = slice | Integers
Bound = Callable[[Floats, Cells], tuple[Floats, Floats]]
"""From ratios and their cells to lower and upper bounds on tethered over safe density."""


@dataclass(frozen=True)
class IntervalTotals:
    """What the condition needs to know of an interval of log beta.

    P is the sum over rows with a loss above alpha of an upper bound, N that over rows with a loss
    below alpha of a lower one. The heaviest row of P is stated from below, that of N from above,
    for a bound on the sums without it; both are 0 unless they are asked for.
    """

    positive: float
    negative: float
    heaviest_above: float
    heaviest_below: float
    test: float


class PlainSums(ABC):
    """Sums of bounds on the weights of all rows, and the largest bound on the test weight."""

    def __init__(self, problem: Problem, amounts: Floats) -> None:
        base = np.exp(problem.log_base)
        self.rising = np.maximum(amounts, 0.0) * base
        self.falling = np.maximum(-amounts, 0.0) * base
        points = problem.candidates
        with np.errstate(over="ignore"):
            self.ratio, self.top_ratio = np.exp(problem.log_ratio), np.exp(points.log_ratio)
        self.row, self.top_cell = _consecutive(problem.densities.row), _consecutive(points.cell)
        self.constant = problem.test_weight.constant
        self.top_base = np.exp(points.log_base)

    @abstractmethod
    def fits(self, left: float, right: float) -> bool:
        """Whether an interval of log beta can be handled here."""

    @abstractmethod
    def bound(self, left: float, right: float) -> Bound:
        """What bounds the weights on an interval; the same array twice where it is a point."""

    def sums(self, left: float, right: float, *, heaviest: bool) -> IntervalTotals | None:
        """The sums of the bounds over all rows; None where they are so small as to need logs."""
        bound = self.bound(left, right)

        def add(block: slice) -> tuple[float, float, float, float]:
            low, high = bound(self.ratio[block], _cells(self.row, block))
            rising, falling = self.rising[block], self.falling[block]
            most = (0.0, 0.0)
            if heaviest:
                most = float((rising * low).max()), float((falling * high).max())
            return float((rising * high).sum()), float((falling * low).sum()), *most

        parts = map_blocks(add, len(self.ratio))
        positive, negative = sum(part[0] for part in parts), sum(part[1] for part in parts)
        most = max(part[2] for part in parts), max(part[3] for part in parts)
        test = self._test(bound)
        if min(negative, test) < MIN_PLAIN_TOTAL:
            return None
        return IntervalTotals(positive, negative, *most, test)

    def terms(self, left: float, right: float) -> tuple[Floats, float]:
        """The signed term of each row and the test weight, bounded from above."""
        bound = self.bound(left, right)
        found = np.empty(len(self.ratio))

        def fill(block: slice) -> None:
            low, high = bound(self.ratio[block], _cells(self.row, block))
            np.multiply(self.rising[block], high, out=found[block])
            found[block] -= self.falling[block] * low

        map_blocks(fill, len(found))
        return found, self._test(bound)

    def _test(self, bound: Bound) -> float:
        """The largest bound on the test weight."""
        if self.constant is not None:
            return self.constant

        def largest(block: slice) -> float:
            high = bound(self.top_ratio[block], _cells(self.top_cell, block))[1]
            return float((high * self.top_base[block]).max())

        return max(map_blocks(largest, len(self.top_ratio)))


def _consecutive(cell: Integers) -> int | Integers:
    """The cells to look up, or the first one where they are consecutive and a slice will do."""
    first = int(cell[0]) if len(cell) else 0
    return first if np.array_equal(cell, np.arange(first, first + len(cell))) else cell


def _cells(cell: int | Integers, block: slice) -> Cells:
    """The cells of a block of points."""
    if isinstance(cell, int):
        return slice(cell + block.start, cell + block.stop)
    return cell[block]
