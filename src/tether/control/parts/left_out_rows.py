"""How far the weights of rows with contexts move when each is left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats
from tether.control.constraint import Constraint
from tether.control.parts.log_sum import LogSums
from tether.control.parts.rows import LogPart
from tether.control.parts.weights import WeightsOfPart
from tether.control.solvers.search import interpolate

Level = tuple[Floats, Floats, Floats]
"""Points of log beta, and at each the logs of P and N over all rows."""


@dataclass(frozen=True)
class MoveRows:
    """Σw at beta, and Σ|w(β without the row) − w(β)|, as `search.leave_one_out` finds them.

    The beta without a row is interpolated between the points of a grid, and so is its weight there,
    with an error of either sign. No step of the grid is certified: a condition that fails and
    passes again inside one is not seen here, though `search.leave_one_out` may see it.
    """

    weights: WeightsOfPart
    constraints: tuple[Constraint, ...]
    levels: tuple[Level, ...]
    at: float
    search_range: tuple[float, float]

    def of(self, part: LogPart) -> LogSums:
        """The sums of a part."""
        at_beta = self.weights.at_betas(part)
        here = at_beta(self.at)
        points = np.unique(np.concatenate([grid for grid, _, _ in self.levels]))
        table = np.stack([at_beta(point) for point in points.tolist()])
        without = np.full(len(part), np.inf)
        for each, (grid, log_p, log_n) in zip(self.constraints, self.levels, strict=True):
            rows = table[np.searchsorted(points, grid)]
            own = _crossings(each.signed(part.loss[each.name]), grid, log_p, log_n, rows)
            own[own <= self.search_range[0]] = -np.inf
            own[own >= self.search_range[1]] = np.inf
            without = np.minimum(without, own)
        moved = _interpolated(points, table, without)
        for end, beyond in zip(
            self.search_range, (np.isneginf(without), np.isposinf(without)), strict=True
        ):
            if beyond.any():
                moved[beyond] = at_beta(end)[beyond]
        larger, smaller = np.maximum(moved, here), np.minimum(moved, here)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = larger + np.log(-np.expm1(smaller - larger))
        return LogSums.of([here, np.where(larger > -np.inf, change, -np.inf)])


def _crossings(amount: Floats, grid: Floats, log_p: Floats, log_n: Floats, rows: Floats) -> Floats:
    """Log of the largest beta without each row, interpolated; the last point if none fails."""
    with np.errstate(divide="ignore"):
        log_size = np.log(np.abs(amount))
    top = np.maximum(log_p, log_n)
    log_beta = np.full(len(amount), np.nan)
    previous = np.zeros(len(amount))
    for k, point in enumerate(grid.tolist()):
        own = np.sign(amount) * np.exp(log_size + rows[k] - top[k])
        value = np.exp(log_p[k] - top[k]) - np.exp(log_n[k] - top[k]) - own
        crossed = np.isnan(log_beta) & (value > 0)
        if k == 0:
            log_beta[crossed] = point
        else:
            left = float(grid[k - 1])
            log_beta[crossed] = interpolate(left, point, previous[crossed], value[crossed])
        previous = value
    return np.where(np.isnan(log_beta), grid[-1], log_beta)


def _interpolated(points: Floats, table: Floats, log_beta: Floats) -> Floats:
    """The log-weight of each row at a beta of its own, between the points of a table."""
    if len(points) == 1:
        return np.array(table[0])
    inside = np.clip(log_beta, points[0], points[-1])
    right = np.clip(np.searchsorted(points, inside), 1, len(points) - 1)
    row = np.arange(len(log_beta))
    first, second = table[right - 1, row], table[right, row]
    share = (inside - points[right - 1]) / (points[right] - points[right - 1])
    with np.errstate(invalid="ignore"):
        value = first + share * (second - first)
    # A weight of zero has no logarithm to interpolate.
    return np.where(np.isnan(value), second, value)
