"""Stability: how much the tethered policy moves when one row of the log is left out.

With β̂₋ᵢ the beta without row i, the row's weight is multiplied by a factor r_i = w_i(β̂₋ᵢ)/w_i(β̂),
and row i stands for the next action, which beta could not depend on. The calibrated sums of the
condition then change by at most max(α, B − α)·Σ w_i·|r_i − 1|, so the promise needs

    ε̂ = Σ_i share_i·|r_i − 1|.

The change of each row's own weight is computed where weights are known. Without contexts a weight
of clip lacks the normalizing constant, which cancels in the condition but changes with beta. There
the smoothness K of the family is used: r_i is at most (β̂/β̂₋ᵢ)^K or its inverse at every action.

Where betas are found by a search, β̂₋ᵢ is enclosed in steps of log beta, and the largest change in
them is taken (`tether.control.left_out`): ε̂ is then an upper bound.
"""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats
from tether.control.constraint import Constraint
from tether.control.families import Mix
from tether.control.left_out import largest_changes, own_changes, smooth_changes, step_points
from tether.control.problem import Problem
from tether.control.solvers.excess import _log_sum
from tether.control.solvers.search import limits_without_row


def searched_instability(
    problem: Problem, constraints: tuple[Constraint, ...], log_beta: float
) -> float:
    """An upper bound on ε̂ from steps that enclose the beta without each row."""
    lo, hi = problem.search_range()
    limits = [limits_without_row(problem, each) for each in constraints]
    earliest, latest = (min(each[side] for each in limits) for side in (0, 1))
    points = step_points(log_beta, earliest, latest, (lo, max(hi, latest)))
    here, test = problem.log_weights(float(np.clip(log_beta, lo, hi)))
    known = problem.family.smoothness
    if known is None or not problem.normalizer_cancels:
        changes = own_changes(problem, here)
    else:
        changes = smooth_changes(here, log_beta, known, problem.reach(log_beta))
    found = largest_changes(problem, constraints, points, changes)
    with np.errstate(over="ignore"):
        return float(np.exp(_log_sum(found) - _log_sum(here, test)))


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
    """Compute ε̂ from the rows' own weights: of mix, and of families along a path."""
    if not len(problem.path_log_betas):
        log_beta = float(np.clip(log_beta, *problem.search_range()))
    rows, test = problem.log_weights(log_beta)
    moved = _log_weights_at(problem, without)
    log_total = _log_sum(rows, test)
    with np.errstate(over="ignore"):
        return float(np.abs(np.exp(moved - log_total) - np.exp(rows - log_total)).sum())


def _log_weights_at(problem: Problem, log_betas: Floats) -> Floats:
    """The log-weight of each row at a beta of its own."""
    if isinstance(problem.family, Mix):
        own, log = np.clip(log_betas, *problem.search_range()), problem.log
        density = problem.family.log_density(log.log_safe, log.log_optimized, own, 0.0)
        return np.asarray(density - problem.log_mix)
    result = np.empty(len(log_betas))
    for log_beta in np.unique(log_betas):  # one of the few of a path
        own = log_betas == log_beta
        result[own] = problem.log_weights(float(log_beta))[0][own]
    return result
