"""What a plan takes for the truth: the actions of the safe policy, with their losses and ratios.

It is the rows of a log, or the simple model of `Plan`: losses of 0 or the bound, with normal log
ratios among harmful and among harmless actions. Rows that are alike are counted together, so that a
plan takes as long for a large log as for a small one. Losses are in units of the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from tether._core.types import Floats, Integers
from tether.control.families import DEFAULT_BLEND

LARGEST_PLANNED_LOG_RATIO = 600.0
"""Log ratios further from 0 than this are taken for it, so that nothing overflows."""
MOST_RATIO_GROUPS, MOST_LOSS_GROUPS = 128, 12
"""How many groups of ratios, and of losses within each, the rows of a log are counted in."""
GROUPS_PER_HALF, SMALLEST_TAIL = 2, 1e-9
"""How many groups of ratios there are each time that a tail halves, and where tails end."""
MODEL_DEVIATIONS, MODEL_CELLS = 7.0, 112
"""How far normal log ratios are followed on both sides, and in how many cells."""
TINY = 1e-300
"""Stands for a sum that may be 0, where it divides."""
TYPICAL_SHARE = math.log(2)
"""The largest of n draws has a share of this over n above it in half of all cases."""


@dataclass(frozen=True)
class Population:
    """Kinds of actions in increasing order of their ratios, with their shares of the safe policy.

    Build one with `from_rows` or `from_figures`.
    """

    share: Floats
    loss: Floats
    log_ratio: Floats
    mean: float
    """The safe policy's expected loss."""
    tail: Population | None = None
    """A population whose largest ratios these are at least, where more are possible than seen."""

    @classmethod
    def from_rows(cls, weight: Floats, loss: Floats, log_ratio: Floats) -> Self:
        """The rows of a log, with weights that sum to 1; rows that are alike are one kind."""
        log_ratio = _limited(log_ratio)
        optimized, harm = weight * np.exp(log_ratio), weight * np.square(loss)
        # Ratios are told apart where either policy acts or does harm, and losses by their squares.
        harm = harm / max(float(harm.sum()), TINY)
        acting = weight + optimized / max(float(optimized.sum()), TINY)
        of_ratio = group_values(log_ratio, acting + harm, MOST_RATIO_GROUPS, GROUPS_PER_HALF)
        of_ratio = 2 * of_ratio + (log_ratio > -np.inf)  # what is never taken is a kind by itself
        of_loss = group_values(loss, weight + harm, MOST_LOSS_GROUPS)
        _, kind = np.unique(of_ratio * (of_loss.max() + 1) + of_loss, return_inverse=True)
        share: Floats = np.bincount(kind, weight).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean_loss = np.bincount(kind, weight * loss) / share
            mean_ratio = np.log(np.bincount(kind, optimized) / share)
        seen = np.flatnonzero(share > 0)
        kept = seen[np.argsort(mean_ratio[seen], kind="stable")]
        return cls(share[kept], mean_loss[kept], mean_ratio[kept], float(weight @ loss))

    @classmethod
    def from_figures(cls, safe_risk: float, optimized_risk: float, spread: float) -> Self:
        """Normal log ratios with this spread, so that the policies have these risks."""
        kinds: list[tuple[Floats, Floats, Floats]] = []
        mass, mass_optimized = _normal_cells(spread)
        for loss, safe, optimized in (
            (0.0, 1 - safe_risk, 1 - optimized_risk),
            (1.0, safe_risk, optimized_risk),
        ):
            if safe == 0:
                continue
            with np.errstate(divide="ignore"):
                log_ratio = np.log(optimized / safe) + np.log(mass_optimized) - np.log(mass)
            never = np.full(len(mass), -np.inf)
            log_ratio = _limited(log_ratio) if optimized else never
            kinds.append((safe * mass, np.full(len(mass), loss), log_ratio))
        share, losses, log_ratios = (np.concatenate(each) for each in zip(*kinds, strict=True))
        order = np.argsort(log_ratios, kind="stable")
        return cls(share[order], losses[order], log_ratios[order], safe_risk)

    @cached_property
    def ratio(self) -> Floats:
        """Optimized over safe density of each kind."""
        return np.exp(self.log_ratio)

    @cached_property
    def variance(self) -> float:
        """The variance of the safe policy's losses."""
        return float(self.share @ np.square(self.loss - self.mean))

    @cached_property
    def loss_size(self) -> float:
        """The size of losses, s: being 0 or s they have the same mean and variance."""
        return float(self.share @ np.square(self.loss)) / self.mean if self.mean else 1.0

    def with_mean(self, mean: float) -> Population:
        """What to expect among rows whose mean loss is this: shares that are linear in the loss."""
        if self.variance == 0 or mean == self.mean:
            return self
        tilt = 1 + (self.loss - self.mean) * (mean - self.mean) / self.variance
        share = self.share * np.maximum(tilt, 0.0)
        share /= share.sum()
        return Population(share, self.loss, self.log_ratio, float(share @ self.loss), self.tail)

    def blended(self) -> Population:
        """What clip works with where the optimized policy never takes some of the actions."""
        if self.log_ratio[0] > -np.inf:
            return self
        log_optimized = math.log1p(-DEFAULT_BLEND) + self.log_ratio
        return replace(self, log_ratio=np.logaddexp(log_optimized, math.log(DEFAULT_BLEND)))

    def largest_log_ratio(self, draws: int) -> float:
        """The largest log ratio to expect among draws of the optimized policy."""
        below = np.cumsum(self.share * self.ratio)
        place = np.searchsorted(below, below[-1] * (1 - TYPICAL_SHARE / max(draws, 1)))
        found = float(self.log_ratio[min(int(place), len(below) - 1)])
        return found if self.tail is None else max(found, self.tail.largest_log_ratio(draws))

    def seen(self, rows: int) -> Floats:
        """The shares of what more than half of all logs of so many rows contain."""
        above = np.cumsum(self.share[::-1])[::-1]
        return np.where(above >= TYPICAL_SHARE / max(rows, 1), self.share, 0.0)

    def smallest_log_ratio(self, rows: int) -> float:
        """The smallest log ratio to expect among rows of the safe policy."""
        place = np.searchsorted(np.cumsum(self.share), TYPICAL_SHARE / max(rows, 1))
        return float(self.log_ratio[min(int(place), len(self.share) - 1)])


def _limited(log_ratio: Floats) -> Floats:
    """Log ratios whose exponentials are numbers; −inf, of what is never taken, stays."""
    limit = LARGEST_PLANNED_LOG_RATIO
    return np.where(np.isneginf(log_ratio), -np.inf, np.clip(log_ratio, -limit, limit))


def group_values(values: Floats, weight: Floats, most: int, per_half: int = 0) -> Integers:
    """A number for each value: the same for equal ones and, where there are many, for near ones.

    So many more groups each time that a tail halves keep the largest and smallest values.
    """
    distinct, inverse = np.unique(values, return_inverse=True)
    if len(distinct) <= most:
        return np.asarray(inverse)
    mass: Floats = np.bincount(inverse, weight + TINY).astype(np.float64)
    below = (np.cumsum(mass) - mass / 2) / mass.sum()
    tails = np.log2(np.maximum(1 - below, SMALLEST_TAIL)) - np.log2(below + SMALLEST_TAIL)
    groups = np.floor(most * below) - np.floor(per_half * tails)
    return np.asarray(np.unique(groups, return_inverse=True)[1][inverse])


def _normal_cells(spread: float) -> tuple[Floats, Floats]:
    """What both policies have in cells of the standardized log ratio, where the safe one has any.

    Under the optimized policy a normal log ratio is one spread further to the right.
    """
    from scipy.special import ndtr

    steps = np.linspace(-MODEL_DEVIATIONS, MODEL_DEVIATIONS, MODEL_CELLS + 1)
    edges = np.unique(np.concatenate((steps, steps + spread)))

    def masses(at: Floats) -> Floats:
        left, right = at[:-1], at[1:]
        right_tail = ndtr(-left) - ndtr(-right)
        return np.asarray(np.where(left > 0, right_tail, ndtr(right) - ndtr(left)))

    mass, mass_optimized = masses(edges), masses(edges - spread)
    seen = mass > 0
    return mass[seen] / mass.sum(), mass_optimized[seen] / mass_optimized.sum()
