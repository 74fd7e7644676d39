"""The model of a plan for clip in contexts, where a log has tables of all actions.

A weight of clip is min(ρ, β)/ψ(β, x), and tables give the normalizing constant ψ of every row's
context. The expected condition on n rows is

    h(β) = n·E[(l − α)·w(β)] + (B − α)·W(β)  ≤  0,

with W the largest weight that any action has in any of the contexts seen. It is computed exactly
from the rows of the log at betas on a grid, and is taken to be straight between them. Without a row
of loss l and weight w it is h(β) ≤ (l − α)·w(β). As for mix, the stability is the sum of the
changes of each row's own weight over the total weight. Rows with near losses and weights are of one
kind, whose weight at every beta is the mean of theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from tether._core.types import Floats, Integers
from tether.control.acting_weights import ActingWeights
from tether.control.families import DEFAULT_BLEND, Clip
from tether.control.problem import pose
from tether.planning.plan_model import CONDITION_TOLERANCE, PlanModel
from tether.planning.population import TYPICAL_SHARE, Population, group_values
from tether.planning.representative_log import RepresentativeLog

EVEN_BETAS, RATIO_BETAS = 48, 48
"""How many betas of the grid are spaced evenly, and how many at quantiles of the ratios."""
MOST_LOSSES, MOST_RATIOS, MOST_MIDDLES = 6, 24, 8
"""How many groups of losses, of weights at an infinite beta, and at one of 1 rows are put in."""
TAIL_LEVELS = 40
"""The largest weight is known among 1, 2, 4, … contexts, so many times."""


@dataclass(frozen=True)
class WeightCurves:
    """Mean weights of each kind of rows at every beta of a grid, and the largest possible ones."""

    log_beta: Floats
    weight: Floats
    """One row for each kind, one column for each beta."""
    harm: Floats
    """Likewise the mean of loss times weight."""
    largest: Floats
    """One row for each number of contexts: 1, 2, 4 and so on."""

    def largest_among(self, contexts: int) -> Floats:
        """The weight at every beta that the largest among so many contexts typically has."""
        at = min(math.log2(max(contexts / TYPICAL_SHARE, 1.0)), TAIL_LEVELS - 1.0)
        low = min(int(at), TAIL_LEVELS - 2)
        part = at - low
        return np.asarray((1 - part) * self.largest[low] + part * self.largest[low + 1])


@dataclass(frozen=True)
class ContextClipModel(PlanModel):
    """What to expect of clip in contexts; the kinds of the population are those of the curves."""

    curves: WeightCurves | None = None

    @classmethod
    def from_rows(cls, rows: RepresentativeLog, max_ratio: float | None) -> Self:
        """The model in which the rows of a log with tables are the truth."""
        problem = pose(rows.log, None, Clip(), "empirical", DEFAULT_BLEND)
        weights, share, (loss,) = ActingWeights(problem), rows.share, rows.log.loss.values()
        low, high = problem.search_range()
        even = np.linspace(low, high, EVEN_BETAS)
        ratios = np.quantile(problem.log_ratio, np.linspace(0.0, 1.0, RATIO_BETAS))
        grid = np.append(np.unique(np.concatenate((even, ratios, [0.0]))), np.inf)
        at_one, at_end = (np.exp(weights.at(each)[0]) for each in (0.0, np.inf))
        kind = _kinds(share, loss, at_one, at_end)
        total: Floats = np.bincount(kind, share).astype(np.float64)
        curve, harm = (np.empty((len(total), len(grid))) for _ in range(2))
        largest = np.empty((TAIL_LEVELS, len(grid)))
        for k, log_beta in enumerate(grid.tolist()):
            log_weight, log_limit = weights.at(log_beta)
            weight = share * np.exp(log_weight)
            curve[:, k] = np.bincount(kind, weight) / total
            harm[:, k] = np.bincount(kind, weight * loss) / total
            largest[:, k] = _largest(np.broadcast_to(np.exp(log_limit), len(share)), share)
        with np.errstate(divide="ignore"):
            log_ratio = np.log(np.bincount(kind, share * at_end) / total)
        mean_loss = np.bincount(kind, share * loss) / total
        population = Population(total, mean_loss, log_ratio, float(share @ loss))
        return cls(population, max_ratio, WeightCurves(grid, curve, harm, largest))

    def _solve(self, alpha: float, rows: int) -> tuple[float, float]:
        """Beta, and how much one row can change it."""
        assert self.curves is not None
        share, weight = self.population.share, self.curves.weight
        above, largest = self.curves.harm - alpha * weight, self.curves.largest_among(rows)
        excess = rows * (share @ above) + (1 - alpha) * largest
        level = CONDITION_TOLERANCE * rows
        if excess[0] > level:
            return 0.0, math.inf
        place = float(_last_passing(excess[None, :], level)[0])
        without = _last_passing(excess - above, level)
        here = _at(weight, np.full(len(share), place))
        moved = float(share @ np.abs(_at(weight, without) - here))
        test = float(_at(largest[None, :], np.array([place]))[0])
        beta = math.inf
        if place < len(excess) - 1:
            log_beta = self.curves.log_beta[:-1]
            beta = math.exp(float(np.interp(place, np.arange(len(log_beta)), log_beta)))
        return beta, moved / (float(share @ here) + test / rows)


def _kinds(share: Floats, loss: Floats, at_one: Floats, at_end: Floats) -> Integers:
    """The kind of each row: rows with near losses and weights are of one."""
    groups = (
        group_values(loss, share, MOST_LOSSES),
        group_values(at_end, share * (1 + at_end), MOST_RATIOS, 1),
        group_values(at_one, share, MOST_MIDDLES),
    )
    kind = np.zeros(len(share), dtype=np.int64)
    for each in groups:
        kind = kind * (int(each.max()) + 1) + each
    return np.asarray(np.unique(kind, return_inverse=True)[1])


def _largest(limit: Floats, share: Floats) -> Floats:
    """The limits that shares of 1, 1/2, 1/4 and so on of all rows are not below."""
    order = np.argsort(limit)[::-1]
    above = np.cumsum(share[order])
    place = np.searchsorted(above, 0.5 ** np.arange(TAIL_LEVELS))
    return np.asarray(limit[order[np.minimum(place, len(order) - 1)]])


def _last_passing(excess: Floats, level: float) -> Floats:
    """Where along the grid each row of the excess first passes the level; 0 if at once."""
    failing = excess > level
    first = np.where(failing.any(axis=1), failing.argmax(axis=1), excess.shape[1])
    before = np.clip(first - 1, 0, excess.shape[1] - 1)
    after = np.minimum(first, excess.shape[1] - 1)
    row = np.arange(len(excess))
    left, right = excess[row, before], excess[row, after]
    rise = right - left
    part = np.divide(level - left, rise, out=np.zeros_like(rise), where=rise > 0)
    return np.asarray(before + np.where(first == 0, 0.0, np.clip(part, 0.0, 1.0)))


def _at(values: Floats, place: Floats) -> Floats:
    """Each row of the values at a place of its own between columns."""
    low = np.minimum(place.astype(np.int64), values.shape[1] - 2)
    row, part = np.arange(len(values)), place - low
    return np.asarray((1 - part) * values[row, low] + part * values[row, low + 1])
