"""What it costs that rows of a context share their draws.

Unbiased weights are exact if every row has draws of its own. Rows that share draws share their
noise: the weight of all of them together is multiplied by a random factor, which more rows do not
average out. The condition compares P, the weighted sum over rows with a loss above alpha, with N,
that over rows below it, and E[N/P] exceeds the ratio of the expectations by about the relative
variance of P. So P ≤ N is replaced by P·g ≤ N/g with g² = 1 + var P/P² + var N/N².

With a the acceptance probability of a proposal, p its mean and M draws in a group, a weight
m·S(p) + D(p) changes by (m·S′ + D′)·dp, and dp has variance var(a)/M, common to the rows that share
the draws; what each row would have with draws of its own is taken off. Groups are independent, so
many contexts, or many draws in each, make g close to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether._core.types import Floats
from tether.control.densities import BudgetedDensities

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem


def count_sharing(problem: Problem) -> int:
    """How many rows do not have draws of their own, of those that their weights average over."""
    if not isinstance(problem.densities, BudgetedDensities):
        return 0
    return len(problem.log) - int(np.count_nonzero(np.bincount(problem.densities.row)))


class SharingTerms(NamedTuple):
    """Of each row its expected weight, how it changes with p, and the variance of p."""

    weight: Floats
    slope: Floats
    noise: Floats


def shared_ratio_error(problem: Problem, constraint: Constraint, log_beta: float) -> float:
    """The factor g at one beta; 1 where no rows share draws."""
    if not np.isfinite(log_beta) or not isinstance(problem.densities, BudgetedDensities):
        return 1.0
    terms, group = sharing_terms(problem, log_beta), problem.densities.row
    relative = 0.0
    for side in sides_of(problem, constraint):
        total = float((side * terms.weight).sum())
        if total > 0:
            moves = side * terms.slope * np.sqrt(terms.noise)
            moved = np.bincount(group, moves) ** 2 - np.bincount(group, moves**2)
            relative += float(np.maximum(moved, 0.0).sum()) / total**2
    return float(np.sqrt(1 + relative))


def sides_of(problem: Problem, constraint: Constraint) -> tuple[Floats, Floats]:
    """The amounts of the rows above alpha, and of those below it, both without signs."""
    signed = constraint.signed(problem.log.loss[constraint.name])
    return np.maximum(signed, 0.0), np.maximum(-signed, 0.0)


def sharing_terms(problem: Problem, log_beta: float, top: float | None = None) -> SharingTerms:
    """What rows with draws weigh, with weights over e^top: by default the largest."""
    densities = problem.densities
    assert isinstance(densities, BudgetedDensities)
    mean, variance = _acceptance(densities, log_beta)
    row, group, blocks = problem.draws.row, densities.row, densities.blocks
    groups = len(blocks.group_start)
    draws = np.diff(blocks.group_start, append=blocks.log_ratio_safe.shape[1])
    draws *= densities.family.max_draws
    context = np.repeat(
        np.arange(len(blocks.context_start)), np.diff(blocks.context_start, append=groups)
    )
    noise = variance[context] / draws
    tries, fallback, tries_slope, fallback_slope = expected_averages(
        mean, densities.family.max_draws
    )
    base = np.broadcast_to(problem.log_base, len(problem.log))
    log_proposed = np.minimum(problem.log_ratio, log_beta) - min(log_beta, 0.0) + base
    if top is None:  # it cancels, and keeps squares finite
        top = max(float(log_proposed.max()), float(base.max()))
    proposed, base = np.exp(log_proposed - top), np.exp(base - top)
    weight = proposed * tries[row] + base * fallback[row]
    slope = proposed * tries_slope[row] + base * fallback_slope[row]
    return SharingTerms(weight, slope, noise[group])


def _acceptance(densities: BudgetedDensities, log_beta: float) -> tuple[Floats, Floats]:
    """The mean and the variance of acceptance probabilities in each context."""
    blocks = densities.blocks
    accept = np.exp(densities.log_accept(log_beta))
    first = blocks.group_start[blocks.context_start]
    draws = np.diff(first, append=accept.shape[1]) * accept.shape[0]
    mean = np.add.reduceat(accept.sum(axis=0), first) / draws
    square = np.add.reduceat((accept**2).sum(axis=0), first) / draws
    spread = np.maximum(square - mean**2, 0.0) * draws / np.maximum(draws - 1, 1)
    # One draw has no spread of its own: then that of a coin with the same mean.
    return mean, np.where(draws > 1, spread, mean * (1 - mean))


def expected_averages(mean: Floats, budget: int) -> tuple[Floats, Floats, Floats, Floats]:
    """S, D and their derivatives for proposals that are accepted with probability `mean`."""
    rejected = 1 - mean
    tries, slope = np.zeros(len(mean)), np.zeros(len(mean))
    power = np.ones(len(mean))
    previous = np.zeros(len(mean))
    for count in range(budget):
        tries += power
        slope -= count * previous
        previous, power = power, power * rejected
    return tries, power, slope, -budget * previous
