"""Betting against the hypothesis that a policy's risk is above alpha.

Row i has loss l_i in [0, B] and importance weight w_i = (density of the policy that is tested) /
(density of the policy that acted). Given the past, E[w_i] = 1 in every context and E[w_i·l_i] is
the risk R, so for every number c that is known before the action is drawn

    Z_i = (l_i − α)·w_i + c·(1 − w_i)    has expectation    R − α.

A bettor who multiplies a capital of 1 by 1 − λ·Z_i at every row makes no profit in expectation
while R ≥ α, as long as no factor can be negative. By Markov's inequality the capital after all rows
is then at least 1/δ with probability at most δ: a policy that reaches 1/δ is certified.

The stake λ is fixed before the rows are seen. In a context in which no weight is above W, the
largest possible Z is (B − α − c)·W + c. It stays within 1/λ with c = 0 if W ≤ 1/(λ·(B − α)), and
otherwise with the smallest c that is enough, which is at most B − α for every stake up to
1/(B − α). So W may be different in every context, unknown in contexts that were not seen, or
infinite. A small c keeps the variance small. An infinite W gives c = B − α, and then Z is at most
B − α whatever the weight. Weights may also have E[w_i] ≤ 1: c ≥ 0, so this only lowers the capital.

Several bettors with different stakes share the capital. The total is a product over rows for each
of them, so it does not depend on the order of the rows. Rows of adaptively chosen rounds are
allowed: the factors are a supermartingale in the order in which the rows came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats

STAKE_STEP = 0.35
"""The distance between neighbouring stakes, in logs."""
STAKE_STEPS = 18
"""How many stakes lie on either side of the central one."""
STAKE_SPREAD = 0.8
"""The scale of the Laplace distribution of log stakes."""
EXPECTED_VARIANCE = 2.0
"""The variance of Z for which the central stake is best, relative to α·(B − α)."""
MAX_LOG_BET_WEIGHT = 60.0
"""Weights above this, in logs, count as this much."""
LIMIT_ROUNDING = 1e-8
"""A limit that exceeds 1 by no more than this is 1, up to rounding."""
LOG_LIMIT_TOLERANCE, LOG_LIMIT_MARGIN = 1e-9, 2e-9
"""By how much a weight may exceed its limit by rounding, in logs, and what limits are raised by."""
FACTORS_PER_LOG = 8
"""How many factors are multiplied before a logarithm is taken."""
RISK_BOUND_STEPS = 24
"""How often the interval that holds an upper confidence bound is halved."""


@dataclass(frozen=True)
class Bets:
    """Stakes in increasing order, and the log of the share of the capital that each begins with."""

    stake: Floats
    log_share: Floats


@dataclass(frozen=True)
class WeightedLosses:
    """What is bet on: losses in [0, bound], weights, and limits of the weights.

    `limit` holds, for each row or for all of them, a number that no weight in the row's context can
    exceed; it must not depend on the row's action.
    """

    loss: Floats
    weight: Floats
    limit: Floats | float
    bound: float
    refuted: bool
    """Whether a row weighs more than its limit, which then is not one."""

    @classmethod
    def from_logs(
        cls, loss: Floats, log_weight: Floats, log_limit: Floats | float, bound: float
    ) -> WeightedLosses:
        """Leave log space: weights past the largest are reduced to it, which lowers the capital."""
        refuted = bool(np.any(log_weight > log_limit + LOG_LIMIT_TOLERANCE))
        # Above the largest weight every limit is infinite: then each Z falls with the weight.
        limit = np.where(np.greater(log_limit, MAX_LOG_BET_WEIGHT), np.inf, log_limit)
        with np.errstate(over="ignore"):
            weight = np.exp(np.minimum(log_weight, MAX_LOG_BET_WEIGHT))
            return cls(loss, weight, np.exp(limit + LOG_LIMIT_MARGIN), bound, refuted)

    def log_capital(self, stake: float, alpha: float) -> float:
        """Log of the capital of one bettor who began with 1."""
        return -np.inf if self.refuted else _log_product(self.factors(stake, alpha))

    def factors(self, stake: float, alpha: float) -> Floats:
        """What every row multiplies the capital of one bettor by."""
        margin = self.bound - alpha
        stake = min(stake, 1 / margin)
        with np.errstate(divide="ignore", invalid="ignore"):
            spare = max(1 / stake - margin, 0.0) / (self.limit - 1)
        # With slope = B − α − c, Z = (slope − (B − l))·w + B − α − slope.
        slope = np.where(self.limit > 1 + LIMIT_ROUNDING, np.minimum(spare, margin), margin)
        factor = (self.bound - self.loss) - slope
        factor *= self.weight
        factor += slope - margin
        factor *= stake
        factor += 1.0
        return np.maximum(factor, 0.0, out=factor)


def spread_bets(rows: int, alpha: float, bound: float, error: float) -> Bets:
    """Stakes around the best one for so many rows, should the variance of Z be as expected.

    The best stake for a variance V at the edge of certification is √(2·log(1/δ)/(n·V)). Stakes are
    Laplace distributed around it on a log scale. Those above 1/(B − α) are reduced to it: with few
    rows they are the majority, and a log without losses then passes with hardly more rows than the
    exact binomial test needs.
    """
    variance = EXPECTED_VARIANCE * alpha * (bound - alpha)
    center = 0.5 * np.log(2 * (1 - np.log(error)) / (rows * variance))
    offset = STAKE_STEP * np.arange(-STAKE_STEPS, STAKE_STEPS + 1)
    share = np.exp(-np.abs(offset) / STAKE_SPREAD)
    largest = 1 / (bound - alpha)
    stake, index = np.unique(np.minimum(np.exp(center + offset), largest), return_inverse=True)
    share = np.bincount(index.ravel(), share / share.sum())
    return Bets(stake, np.log(share))


def log_total_capital(bets: Bets, losses: WeightedLosses, alpha: float) -> float:
    """Log of the capital of all bettors together, who began with 1 in total."""
    return float(np.logaddexp.reduce(_log_capitals(bets, losses, alpha)))


def is_certified(
    bets: Bets, losses: WeightedLosses, alpha: float, error: float, first: int = 0
) -> tuple[bool, int]:
    """Whether the capital reaches 1/δ, and the number of the bettor who has the most.

    Bettor `first` is asked first: if their part is enough, the others need not be computed.
    """
    needed = -np.log(error)
    alone = bets.log_share[first] + losses.log_capital(float(bets.stake[first]), alpha)
    if alone >= needed:
        return True, first
    each = _log_capitals(bets, losses, alpha)
    return bool(np.logaddexp.reduce(each) >= needed), int(np.argmax(each))


def risk_upper_bound(bets: Bets, losses: WeightedLosses, error: float) -> float:
    """The smallest alpha that would be certified: an upper confidence bound on the risk.

    For every stake the capital grows with alpha, so the bound is found by bisection; it is rounded
    upwards. For one policy, chosen without these losses, the risk is at most the bound with
    probability at least 1 − δ.
    """
    return smallest_certified(
        lambda alpha: is_certified(bets, losses, alpha, error)[0], losses.bound
    )


def smallest_certified(certified: Callable[[float], bool], bound: float) -> float:
    """Where a test that fails at small alphas begins to pass, rounded upwards; at most `bound`."""
    low, high = 0.0, bound
    for _ in range(RISK_BOUND_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if certified(middle) else (middle, high)
    return high


def _log_capitals(bets: Bets, losses: WeightedLosses, alpha: float) -> Floats:
    """Log of what every bettor has in the end."""
    each = [losses.log_capital(float(stake), alpha) for stake in bets.stake]
    return np.asarray(bets.log_share + each)


def _log_product(factors: Floats) -> float:
    """Log of a product of non-negative factors."""
    whole = len(factors) // FACTORS_PER_LOG * FACTORS_PER_LOG
    blocks = np.prod(factors[:whole].reshape(FACTORS_PER_LOG, -1), axis=0)
    with np.errstate(divide="ignore"):
        return float(np.log(blocks).sum() + np.log(factors[whole:]).sum())
