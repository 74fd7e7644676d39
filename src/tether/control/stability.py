"""Stability: how much the tethered policy moves when one row of the log is left out.

With β̂₋ᵢ the beta without row i, the row's weight is multiplied by a factor r_i = w_i(β̂₋ᵢ)/w_i(β̂),
and row i stands for the next action, which beta could not depend on. The calibrated sums of the
condition then change by at most max(α, B − α)·Σ w_i·|r_i − 1|, so the promise needs

    ε̂ = Σ_i share_i·|r_i − 1|.

The change of each row's own weight is computed where weights are known. Without contexts a weight
of clip lacks the normalizing constant, which cancels in the condition but changes with beta. There
the smoothness K of the family is used: r_i is at most (β̂/β̂₋ᵢ)^K or its inverse at every action.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tether._core.types import Floats
from tether.control.families import LAST_LOG_BETA_OF_SAFE, Mix
from tether.control.problem import Problem

WEIGHT_POINTS = 17
"""Quantiles, and even steps, of the betas without a row between which weights are interpolated."""


def smooth_instability(
    log_beta: float, without: Floats, share: Floats, smoothness: float, reach: tuple[float, float]
) -> float:
    """Bound ε̂ from beta, the betas without each row, the rows' shares and the smoothness K.

    Betas outside the reach of the policies all give the same policy as its nearest end.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        moved = np.clip(without, *reach) - np.clip(log_beta, *reach)
        grown = np.expm1(smoothness * np.abs(np.where(np.isnan(moved), 0.0, moved)))
        return float(np.sum(share * grown, where=share > 0))


def measured_instability(problem: Problem, log_beta: float, without: Floats) -> float:
    """Compute ε̂ from the rows' own weights."""
    if not len(problem.path_log_betas):
        log_beta = float(np.clip(log_beta, *problem.search_range()))
    rows, test = problem.log_weights(log_beta)
    moved = _log_weights_at(problem, without)
    top = max(float(rows.max()), test)
    log_total = top + float(np.log(np.exp(rows - top).sum() + np.exp(test - top)))
    with np.errstate(over="ignore"):
        return float(np.abs(np.exp(moved - log_total) - np.exp(rows - log_total)).sum())


def _log_weights_at(problem: Problem, log_betas: Floats) -> Floats:
    """The log-weight of each row at a beta of its own."""
    if isinstance(problem.family, Mix):
        own, log = np.clip(log_betas, *problem.search_range()), problem.log
        density = problem.family.log_density(log.log_safe, log.log_optimized, own, 0.0)
        return np.asarray(density - problem.log_mix)
    result = np.empty(len(log_betas))
    if len(problem.path_log_betas):  # few betas, and between them nothing to interpolate
        for log_beta in np.unique(log_betas):
            own = log_betas == log_beta
            result[own] = problem.log_weights(float(log_beta))[0][own]
        return result
    lo, hi = problem.search_range()
    for end, beyond in ((lo, log_betas <= lo), (hi, log_betas >= hi)):
        if beyond.any():
            result[beyond] = problem.log_weights(end)[0][beyond]
    between = np.flatnonzero((log_betas > lo) & (log_betas < hi))
    if len(between) == 0:
        return result
    own = log_betas[between]
    points = _interpolation_points(own)
    previous = problem.log_weights(float(points[0]))[0][between]
    result[between] = previous
    for left, right in pairwise(points):
        current = problem.log_weights(float(right))[0][between]
        inside = (own > left) & (own <= right)
        share = (own[inside] - left) / (right - left)
        with np.errstate(invalid="ignore"):
            value = previous[inside] + share * (current[inside] - previous[inside])
        # A weight of zero has no logarithm to interpolate.
        result[between[inside]] = np.where(np.isnan(value), current[inside], value)
        previous = current
    return result


def _interpolation_points(log_betas: Floats) -> Floats:
    """Quantiles and even steps of betas, and both sides of β = 1, where weights may jump."""
    lo, hi = float(log_betas.min()), float(log_betas.max())
    jump = [point for point in (LAST_LOG_BETA_OF_SAFE, 0.0) if lo < point < hi]
    ranks = np.quantile(log_betas, np.linspace(0, 1, WEIGHT_POINTS))
    return np.unique(np.concatenate((ranks, np.linspace(lo, hi, WEIGHT_POINTS), jump)))
