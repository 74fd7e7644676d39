"""The gains that the methods of `benchmarks.power` are compared with."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import tether
from benchmarks.power_worlds import PowerWorld

BETAS, MAX_LOG_BETA = 300, 40.0


def clip_oracle(world: PowerWorld) -> float:
    """The gain of clip at the beta with the largest reward among those with true risk ≤ alpha."""
    _, safe_reward = world.population.outcome(world.population.table(world.safe))
    with np.errstate(divide="ignore"):
        ratios = np.log(world.population.table(world.optimized))
        ratios -= np.log(world.population.table(world.safe))
    points = []
    for log_beta in np.linspace(ratios.min(), min(ratios.max(), MAX_LOG_BETA), BETAS):
        policy = tether.Tethered(world.safe, world.optimized, float(np.exp(log_beta)))
        points.append(world.population.outcome(world.population.table(policy)))
    return _best(np.array(points), world.alpha) - safe_reward


def veto_ceiling(world: PowerWorld) -> float:
    """The gain of vetoing actions by their true loss, most harmful first, until the risk is alpha.

    Where every action of a context is vetoed, or the optimized policy takes no other, the safe
    policy's chances of the least harmful actions remain. Between two vetoes: a mixture of both.
    """
    population = world.population
    optimized, safe = population.table(world.optimized), population.table(world.safe)
    _, safe_reward = population.outcome(safe)
    points = []
    for level in np.unique(np.quantile(population.loss, np.linspace(0, 1, BETAS))):
        allowed = population.loss <= level
        least = population.loss <= population.loss.min(axis=1, keepdims=True)
        kept = np.where(allowed, optimized, 0.0)
        kept = np.where(kept.sum(axis=1, keepdims=True) > 1e-12, kept, least * safe)
        points.append(population.outcome(kept / kept.sum(axis=1, keepdims=True)))
    return _best(np.array(points), world.alpha) - safe_reward


def _best(points: np.ndarray, alpha: float) -> float:
    """The largest reward at a risk of alpha on the line through (risk, reward) points."""
    risk, reward = points.T
    best = float(reward[risk <= alpha].max(initial=-np.inf))
    for first, second in pairwise(points):
        if min(first[0], second[0]) <= alpha < max(first[0], second[0]):
            share = (alpha - first[0]) / (second[0] - first[0])
            best = max(best, float((1 - share) * first[1] + share * second[1]))
    return best
