"""Whether a log lacks actions that a tethered policy takes, so that no mean of it can be stated.

Weights that are densities over densities have a mean of one, and clearly less where the rows lack
actions of the policy. The weights of clip without contexts are not of that kind: they lack the
normalizing constant, which is estimated from the same rows or from a few draws. There the ratios of
the optimized policy tell. If their mean is 1 − M and clearly below one, the rows lack a share M of
what the optimized policy does. Clip takes at most β times the safe probability of these actions,
and actions that are in none of n rows have a safe probability of at most log(20)/n, up to a chance
of 5 %: so of the kernel at most the smaller of M and β·log(20)/n is missing.
"""

from __future__ import annotations

import math

import numpy as np

from tether._core.types import Floats
from tether.control.densities import BudgetedDensities
from tether.control.problem import Problem
from tether.control.weighted_means import mean_clearly_below_one, why_not_shown

LOG_UNSEEN = math.log(math.log(20))
"""Log of n times the probability of actions that are in none of n rows with a chance of 5 %."""
NEGLIGIBLE_MISSING = 0.02
"""A share of what a policy does that may be missing without a word."""


def why_missing(problem: Problem, log_beta: float, log_tethered: Floats) -> str | None:
    """Why the log does not tell what the tethered policy does, in words; None where it may."""
    if log_beta == -np.inf:
        return None
    budgeted = isinstance(problem.densities, BudgetedDensities)
    if problem.family.normalized or problem.log.log_safe_all is not None or budgeted:
        return why_not_shown(mean_clearly_below_one(log_tethered))
    if not problem.family.clips or not problem.normalizer_cancels:
        return None
    shown = mean_clearly_below_one(problem.given_log.log_optimized - problem.log_mix)
    if shown is None:
        return None
    kernel = np.minimum(problem.log_ratio, log_beta) + problem.log_base
    with np.errstate(over="ignore"):
        return why_not_seen(shown, float(np.exp(kernel).mean()), log_beta, len(kernel))


def why_not_seen(shown: float, seen: float, log_beta: float, rows: int) -> str | None:
    """What the rows may lack of clip without contexts, if that is not negligible.

    `shown` is the share of the optimized policy that they show, `seen` the mean of the kernel.
    """
    with np.errstate(over="ignore"):
        missing = min(1 - shown, float(np.exp(log_beta + LOG_UNSEEN - np.log(rows))))
    share = missing / (seen + missing)
    if share <= NEGLIGIBLE_MISSING:
        return None
    return f"up to {share:.0%} of what this policy does may be in no row of the log"
