"""The largest beta that is certified with high probability over the log.

Beta is tested on a fixed increasing sequence, by betting (`risk_betting`) at level δ each time, and
the search stops at the first beta that is not certified. Let β* be the first beta of the sequence
whose true risk is above alpha. If the result has a risk above alpha, then it is β* or comes after
it, so the test at β* has rejected a true hypothesis, which has probability at most δ. So there is
no correction for the number of betas. Nor is there one for several losses: every loss must pass at
every beta, and at β* one of the losses is above its alpha; its own test must have failed.

The sequence is the same for all logs. Ends of it are left out where the tethered policy, and with
it the test, is the same as at the first or last beta that is tested; this changes no decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether._core.validate import number
from tether.control.acting_weights import ActingWeights
from tether.control.constraint import Constraint
from tether.control.families import Mix
from tether.control.problem import Problem
from tether.control.risk_betting import (
    Bets,
    WeightedLosses,
    is_certified,
    risk_upper_bound,
    smallest_certified,
    spread_bets,
)

if TYPE_CHECKING:
    from tether.control.parts.problem import ProblemInParts

SMALLEST_STEP = 0.05
"""The step between tested betas near 1, in log beta."""
RELATIVE_STEP = 0.02
"""The step between tested betas far from 1, as a share of |log beta|."""
LAST_LOG_BETA = 1000.0
"""The largest finite log beta that is tested, and minus the smallest."""
MAX_LOG_RATIO_ERROR = 7.0
"""The largest ratio error that is looked for, in logs."""
RATIO_ERROR_STEP = 1e-3
"""How closely the largest ratio error is located, in logs."""
NEGLIGIBLE_LOG = 37.0
"""Below e to minus this, a share of a mixture is lost in rounding."""


@dataclass(frozen=True)
class CertifiedBeta:
    """A beta whose expected losses are within their alphas with probability `confidence`.

    The probability is over the log: P(every risk at `log_beta` ≤ its alpha) ≥ `confidence`. Where
    `log_beta` is −inf nothing was certified, the safe policy serves, and nothing is promised.

    Parameters
    ----------
    log_beta : float
        Log of the largest certified beta; −inf where there is none.
    log_beta_by_constraint : mapping of str to float
        Log of the largest beta that each constraint would allow by itself.
    risk_bounds : mapping of str to float
        For each constraint the smallest alpha that would be certified at this beta, or at the first
        beta of the sequence, the safe policy, if none was. It is an upper confidence bound for a
        beta that was chosen without the log. For the beta that was found it describes the log, and
        the promise is alpha.
    confidence : float
        The probability, over the log, with which the promise holds.
    """

    log_beta: float
    log_beta_by_constraint: Mapping[str, float]
    risk_bounds: Mapping[str, float]
    confidence: float


def certified_beta(
    problem: Problem,
    constraints: Sequence[Constraint],
    confidence: float,
) -> CertifiedBeta:
    """Find the largest beta on a fixed sequence up to which every beta is certified.

    Assumed: contexts come independently from one distribution; losses lie in [0, bound];
    log-probabilities are correct; neither the two policies nor the number of rows were chosen from
    the losses of these rows.

    Parameters
    ----------
    problem : Problem
        The log, its draws and the family.
    constraints : sequence of Constraint
        The losses with their alphas and bounds.
    confidence : float
        The probability 1 − δ, above 0 and below 1.

    Returns
    -------
    CertifiedBeta
        The beta, and an upper bound on each risk.

    Raises
    ------
    ValueError
        If `confidence` is not between 0 and 1, the weights are not unbiased given the past, or the
        log has `log_mix` and not `acting`.
    """
    error = 1 - number("confidence", confidence, above=0, below=1)
    weights = ActingWeights(problem, problem.log.acting)
    sequence = log_beta_sequence(problem)
    bets = {each.name: spread_bets_of(problem, each, error) for each in constraints}
    found = {each.name: -np.inf for each in constraints}
    walking, favourite = list(constraints), {each.name: 0 for each in constraints}
    for log_beta in sequence:
        at_beta, passed = weights.at(log_beta), []
        for each in walking:
            losses = weighted_losses(problem, each, at_beta)
            first = favourite[each.name]
            good, first = is_certified(bets[each.name], losses, each.alpha, error, first)
            favourite[each.name] = first
            if good:
                found[each.name] = float(log_beta)
                passed.append(each)
        walking = passed
        if not walking:
            break
    log_beta = min(found.values())
    at_beta = weights.at(log_beta if log_beta > -np.inf else float(sequence[0]))
    risk_bounds = {
        each.name: _risk_bound(problem, each, at_beta, bets[each.name], error)
        for each in constraints
    }
    return CertifiedBeta(log_beta, found, risk_bounds, confidence)


def risk_bounds(
    problem: Problem,
    constraints: Sequence[Constraint],
    confidence: float,
    log_beta: float,
) -> dict[str, float]:
    """Upper confidence bounds on the risks of one beta that was chosen without the log.

    Each holds with probability at least `confidence`. The parameters are those of `certified_beta`.
    """
    error = 1 - number("confidence", confidence, above=0, below=1)
    at_beta = ActingWeights(problem, problem.log.acting).at(log_beta)
    return {
        each.name: _risk_bound(problem, each, at_beta, spread_bets_of(problem, each, error), error)
        for each in constraints
    }


def _risk_bound(
    problem: Problem,
    constraint: Constraint,
    at_beta: tuple[Floats, Floats | float],
    bets: Bets,
    error: float,
) -> float:
    """The smallest alpha that would be certified; a ratio error moves losses away from each."""

    def certified(alpha: float) -> bool:
        losses = weighted_losses(problem, replace(constraint, alpha=alpha), at_beta)
        return is_certified(bets, losses, alpha, error)[0]

    if constraint.ratio_error == 1:
        return risk_upper_bound(bets, weighted_losses(problem, constraint, at_beta), error)
    return smallest_certified(certified, constraint.bound)


def certified_ratio_error(
    problem: Problem, constraints: Sequence[Constraint], confidence: float
) -> float:
    """The largest ratio error at which the first beta of the sequence is certified; 0 if none."""
    error = 1 - confidence
    at_beta = ActingWeights(problem, problem.log.acting).at(float(log_beta_sequence(problem)[0]))

    def passes(log_factor: float) -> bool:
        allowed = [replace(each, ratio_error=float(np.exp(log_factor))) for each in constraints]
        return all(
            is_certified(
                spread_bets_of(problem, each, error),
                weighted_losses(problem, each, at_beta),
                each.alpha,
                error,
            )[0]
            for each in allowed
        )

    low, high = 0.0, MAX_LOG_RATIO_ERROR
    if not passes(low):
        return 0.0
    while high - low > RATIO_ERROR_STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return float(np.exp(low))


def log_beta_sequence(problem: Problem | ProblemInParts) -> Floats:
    """The log betas that are tested, in increasing order, and +inf.

    All come from one fixed sequence, or are the betas of a path. Where a family saturates, all
    betas below the smallest ratio and 1 are the safe policy; mix with a negligible share is too, up
    to rounding. At the other end the same holds only if the limits of the weights do not grow
    either, as with tables.
    """
    if isinstance(problem, Problem) and len(problem.path_log_betas):
        return problem.path_log_betas
    inner = np.arange(0.0, SMALLEST_STEP / RELATIVE_STEP, SMALLEST_STEP)
    steps = np.log(LAST_LOG_BETA * RELATIVE_STEP / SMALLEST_STEP) / np.log1p(RELATIVE_STEP)
    outer = SMALLEST_STEP / RELATIVE_STEP * (1 + RELATIVE_STEP) ** np.arange(int(steps) + 1)
    positive = np.concatenate((inner, outer))
    full = np.concatenate((-positive[:0:-1], positive))
    lo, hi = -np.inf, np.inf
    if problem.family.saturates:
        lo, top = problem.search_range()
        hi = top if problem.log.has_tables else np.inf
    elif isinstance(problem.family, Mix):
        bottom, top = problem.span
        lo, hi = -max(top, 0.0) - NEGLIGIBLE_LOG, NEGLIGIBLE_LOG - min(bottom, 0.0)
    start = max(int(np.searchsorted(full, lo, side="right")) - 1, 0)
    stop = int(np.searchsorted(full, hi)) + 1
    return np.append(full[start:stop], np.inf)


def spread_bets_of(problem: Problem | ProblemInParts, constraint: Constraint, error: float) -> Bets:
    """The stakes for the number of rows and the tolerance of a constraint."""
    bound = constraint.alpha + constraint.worst
    return spread_bets(len(problem.log), constraint.alpha, bound, error)


def weighted_losses(
    problem: Problem, constraint: Constraint, at_beta: tuple[Floats, Floats | float]
) -> WeightedLosses:
    """What is bet on; a ratio error g moves losses away from alpha, and divides all weights.

    With true weights in [w/g, w·g], E[(l − α)·w*] ≤ E[(l′ − α)·w] where l′ − α is l − α times g
    above alpha and divided by it below. Then w/g has an expectation of at most one.
    """
    loss, (log_weight, log_limit) = problem.log.loss[constraint.name], at_beta
    if constraint.ratio_error == 1:
        return WeightedLosses.from_logs(loss, log_weight, log_limit, constraint.bound)
    moved = constraint.alpha + constraint.factors(loss) * (loss - constraint.alpha)
    log_error = np.log(constraint.ratio_error)
    return WeightedLosses.from_logs(
        np.asarray(moved),
        log_weight - log_error,
        log_limit - log_error,
        constraint.alpha + constraint.worst,
    )
