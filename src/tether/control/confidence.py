"""The largest beta whose risk is at most alpha with high probability over the log.

Betas are tried on a fixed increasing sequence. At each, bettors multiply a capital of 1 by
1 − λ·Z_i at every row (`chain.factors`, with alpha as the level); given the past, E[Z_i] is the
risk less alpha. While the risk is above alpha their capital makes no profit in expectation, so by
Markov's inequality it reaches 1/δ with probability at most δ. A beta is certified if it does, and
the search stops at the first that is not.

Let β* be the first beta of the sequence whose true risk is above alpha. If the result has a risk
above alpha, it is β* or comes after it, so β* was certified: probability at most δ. There is no
correction for the number of betas, nor for several losses: at β* one is above its alpha. A gap that
the log chooses and that is then searched finely, as in `engine`, would be no fixed sequence.
"""

from __future__ import annotations

import numpy as np

from tether._core.arrays import Booleans, Floats
from tether._core.validate import number
from tether.control.engine import Constraint
from tether.control.unbiased import Weights

STAKE_STEP, STAKE_STEPS = 0.5, 8  # the distance of stakes in logs, and how many lie on each side
STAKE_SPREAD = 0.8  # the scale of the Laplace distribution of log stakes
EXPECTED_VARIANCE = 2.0  # of Z, for which the central stake is best, relative to α·(B − α)


def bettors(constraint: Constraint, rows: int, error: float) -> tuple[Floats, Floats]:
    """The stakes of those who bet on one loss, and logs of their shares of the capital.

    The best stake for a variance V at the edge of certification is √(2·log(1/δ)/(n·V)). Stakes are
    Laplace distributed around it on a log scale. Those past 1/(B − α) are reduced to it: with few
    rows they are the majority, and a log without losses then passes with hardly more rows than the
    exact binomial test needs.
    """
    margin = constraint.ratio_error * (constraint.bound - constraint.alpha)
    variance = EXPECTED_VARIANCE * constraint.alpha * margin
    center = 0.5 * np.log(2 * (1 - np.log(error)) / (rows * variance))
    offset = STAKE_STEP * np.arange(-STAKE_STEPS, STAKE_STEPS + 1)
    share = np.exp(-np.abs(offset) / STAKE_SPREAD)
    possible = np.minimum(np.exp(center + offset), 1 / margin)
    stakes, place = np.unique(possible, return_inverse=True)
    return stakes, np.log(np.bincount(place.ravel(), share / share.sum()))


def certified(log_capitals: Floats, log_shares: Floats, error: float) -> Booleans:
    """At which betas all bettors together have reached 1/δ (from betas × bettors)."""
    total = np.logaddexp.reduce(log_capitals + log_shares, axis=1)
    return np.asarray(total >= -np.log(error))


def certify(weights: Weights, rows: int, confidence: float) -> dict[str, float]:
    """The largest log beta of each loss up to which all of the sequence are certified."""
    error = 1 - number("confidence", confidence, above=0, below=1)
    found = {}
    for each in weights.problem.constraints:
        stakes, log_shares = bettors(each, rows, error)
        capitals = weights.log_capitals(each, each.alpha, stakes[None])
        passed = np.logical_and.accumulate(certified(capitals, log_shares, error))
        found[each.name] = float(weights.log_betas[np.count_nonzero(passed)])
    return found
