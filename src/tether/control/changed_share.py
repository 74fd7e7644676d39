"""The share of decisions that change: how far the tethered policy is from the safe one.

In one context, two policies can be run side by side such that they take different actions with
probability Σ_a (π_β(a) − π₀(a))₊, the total variation distance, and never less often. The share of
decisions that change is its mean over contexts.

With tables of all actions it is known exactly in the context of every row. Otherwise the log tells
it: with a_i and b_i the weights of the safe and of the tethered policy, each divided by their mean,
it is the mean of (a_i − b_i)₊. Where weights are noisy, because they come from draws, this is a
little too large, since the positive part is convex.
"""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats
from tether.control.missing_actions import why_missing
from tether.control.problem import Problem
from tether.control.weighted_means import WeightedMean, weighted_mean


def changed_share(
    problem: Problem,
    log_beta: float,
    log_safe: Floats,
    log_tethered: Floats,
    confidence: float = 0.95,
) -> WeightedMean:
    """The share of decisions that change at a beta, given the log-weights of both policies."""
    if log_beta == -np.inf:
        return WeightedMean(0.0, 0.0, 0.0, float(len(problem.log)))
    if problem.log.log_safe_all is None and (why := why_missing(problem, log_beta, log_tethered)):
        return WeightedMean(None, None, None, float(len(problem.log)), why)
    if problem.log.log_safe_all is not None:
        per_row = _distances(problem, log_beta)
    else:
        per_row = _linearized(_relative(log_safe), _relative(log_tethered))
    return weighted_mean(per_row, np.zeros(len(per_row)), bound=1.0, confidence=confidence)


def _distances(problem: Problem, log_beta: float) -> Floats:
    """The total variation distance in the context of each row, from its tables."""
    safe, optimized = problem.log.log_safe_all, problem.log.log_optimized_all
    assert safe is not None
    assert optimized is not None
    cell = problem.densities.row[:, None]
    tethered = np.exp(problem.densities.log_density(safe, optimized, cell, log_beta))
    # Actions outside the reach of the safe policy are never served, so the others sum to one.
    tethered /= tethered.sum(axis=1, keepdims=True)
    return np.asarray(np.maximum(tethered - np.exp(safe), 0.0).sum(axis=1))


def _relative(log_weights: Floats) -> Floats:
    """Weights over their mean."""
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.mean())


def _linearized(safe: Floats, tethered: Floats) -> Floats:
    """Values whose mean is the estimate, and whose spread includes that of the mean weights."""
    less = safe > tethered
    lost = np.where(less, safe - tethered, 0.0)
    safe_part, tethered_part = np.mean(less * safe), np.mean(less * tethered)
    return np.asarray(lost - (safe - 1) * safe_part + (tethered - 1) * tethered_part)
