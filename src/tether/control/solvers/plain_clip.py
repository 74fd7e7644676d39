"""The condition of clip in contexts as plain sums, where all its numbers fit into floats.

With ψ known in every context, a weight is min(ρ, β)/ψ·(safe/mixture). While log beta moves from
left to right, numerator and normalizer both rise, and both fall when divided by β, which bounds
each weight from both sides (see `tether.control.families`). Sums of these bounds need no logarithm
and no exponential of any row, and each block of rows is read once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from tether._core.blocks import map_blocks
from tether._core.types import Floats, Integers
from tether.control.context_draws import MAX_PLAIN_LOG, refuse_empty
from tether.control.densities import NormalizedDensities, make_room
from tether.control.families import Clip

if TYPE_CHECKING:
    from tether.control.problem import Problem


class PlainClip:
    """Sums of bounds on the weights of all rows, and the largest bound on the test weight."""

    def __init__(self, problem: Problem, amounts: Floats, densities: NormalizedDensities) -> None:
        self.normalizer = densities.clip_normalizer
        base = np.exp(problem.log_base)
        self.rising, self.falling = (
            np.maximum(amounts, 0.0) * base,
            np.maximum(-amounts, 0.0) * base,
        )
        self.ratio, self.row = np.exp(problem.log_ratio), _gathered(densities.row)
        points = problem.candidates
        self.constant = problem.test_weight.constant
        self.top_ratio, self.top_base = np.exp(points.log_ratio), np.exp(points.log_base)
        self.top_cell = _gathered(points.cell)
        self._kept: dict[float, Floats] = {}

    @classmethod
    def build(cls, problem: Problem, amounts: Floats) -> Self | None:
        """None where the problem is another one, or its numbers leave the range of floats."""
        densities = problem.densities
        if not (
            isinstance(problem.family, Clip)
            and isinstance(densities, NormalizedDensities)
            and problem.log.contextual
            and densities.clip_normalizer.plain
        ):
            return None
        points = problem.candidates
        logs = (problem.log_ratio, problem.log_base, points.log_ratio, points.log_base)
        fits = all(_fits(np.asarray(part)) for part in logs)
        return cls(problem, amounts, densities) if fits else None

    def fits(self, left: float, right: float) -> bool:
        """Whether an interval of log beta can be handled here."""
        return self.normalizer.fits(left) and self.normalizer.fits(right)

    def sums(
        self, left: float, right: float, *, heaviest: bool
    ) -> tuple[float, float, float, float, float]:
        """P and N of the rows from above and below, the heaviest of each, and the test weight.

        P is the sum over rows with a loss above alpha of an upper bound, N that over rows with a
        loss below alpha of a lower one. The heaviest row of P is stated from below, that of N from
        above, for a bound on the sums without it; both are 0 unless they are asked for.
        """
        at_left, at_right = self._psi(left), self._psi(right)
        beta_left, beta_right = float(np.exp(left)), float(np.exp(right))
        width = float(np.exp(right - left))

        def bounds(ratios: Floats, cells: Integers | None, block: slice) -> tuple[Floats, Floats]:
            ratio, cell = ratios[block], block if cells is None else cells[block]
            lower = np.minimum(ratio, beta_left)
            lower /= at_right[cell]
            if left == right:
                return lower, lower
            upper = np.minimum(ratio, beta_right)
            upper /= at_left[cell]
            return np.maximum(lower, upper / width), np.minimum(upper, lower * width)

        def add(block: slice) -> tuple[float, float, float, float]:
            low, high = bounds(self.ratio, self.row, block)
            rising, falling = self.rising[block], self.falling[block]
            most = (0.0, 0.0)
            if heaviest:
                most = float((rising * low).max()), float((falling * high).max())
            return float((rising * high).sum()), float((falling * low).sum()), *most

        def largest(block: slice) -> float:
            high = bounds(self.top_ratio, self.top_cell, block)[1]
            return float((high * self.top_base[block]).max())

        parts = map_blocks(add, len(self.ratio))
        positive, negative = sum(part[0] for part in parts), sum(part[1] for part in parts)
        most = max(part[2] for part in parts), max(part[3] for part in parts)
        test = self.constant
        if test is None:
            test = max(map_blocks(largest, len(self.top_ratio)))
        return positive, negative, *most, test

    def _psi(self, log_beta: float) -> Floats:
        if log_beta not in self._kept:
            make_room(self._kept)
            psi = self.normalizer.psi(log_beta)
            if not psi.all():
                with np.errstate(divide="ignore"):
                    refuse_empty(np.log(psi))
            self._kept[log_beta] = psi
        return self._kept[log_beta]


def _gathered(cell: Integers) -> Integers | None:
    """The cells to look up; None where point i is in cell i, and a slice will do."""
    return None if np.array_equal(cell, np.arange(len(cell))) else cell


def _fits(logs: Floats) -> bool:
    """Whether exponentials can be multiplied as floats; −inf is zero."""
    lowest = logs.min(initial=0.0, where=logs > -np.inf)
    return bool(logs.max(initial=0.0) <= MAX_PLAIN_LOG and lowest >= -MAX_PLAIN_LOG)
