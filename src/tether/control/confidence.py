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

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tether._core.arrays import Floats
from tether._core.validate import number
from tether.control.chain import Bet
from tether.control.engine import Constraint
from tether.control.unbiased import Weights

STAKE_STEP, STAKE_STEPS = 0.5, 8  # the distance of stakes in logs, and how many lie on each side
STAKE_SPREAD = 0.8  # the scale of the Laplace distribution of log stakes
EXPECTED_VARIANCE = 2.0  # of Z, for which the central stake is best, relative to α·(B − α)
STRIDE = 32  # how many betas are tried in one pass over the rows


@dataclass(frozen=True)
class Bettors:
    """Those who bet on one loss: each has a stake, and a share of the capital to begin with.

    The best stake for a variance V at the edge of certification is √(2·log(1/δ)/(n·V)). Stakes are
    Laplace distributed around it on a log scale. Those past 1/(B − α) are reduced to it: with few
    rows they are the majority, and a log without losses then passes with hardly more rows than the
    exact binomial test needs.
    """

    constraint: Constraint
    rows: int
    error: float

    @cached_property
    def stakes_and_shares(self) -> tuple[Floats, Floats]:
        """The stakes, and logs of the shares."""
        each = self.constraint
        margin = each.ratio_error * (each.bound - each.alpha)
        variance = EXPECTED_VARIANCE * each.alpha * margin
        center = 0.5 * np.log(2 * (1 - np.log(self.error)) / (self.rows * variance))
        offset = STAKE_STEP * np.arange(-STAKE_STEPS, STAKE_STEPS + 1)
        share = np.exp(-np.abs(offset) / STAKE_SPREAD)
        possible = np.minimum(np.exp(center + offset), 1 / margin)
        stakes, place = np.unique(possible, return_inverse=True)
        return stakes, np.log(np.bincount(place.ravel(), share / share.sum()))

    @property
    def bet(self) -> Bet:
        """Their bets that the risk is at most alpha."""
        each = self.constraint
        return Bet(
            *(each.name, each.alpha, each.bound), self.stakes_and_shares[0][None], each.ratio_error
        )

    def certified(self, log_capitals: Floats) -> Floats:
        """At which betas all of them together have reached 1/δ (from betas × bettors)."""
        total = np.logaddexp.reduce(log_capitals + self.stakes_and_shares[1], axis=1)
        return np.asarray(total >= -np.log(self.error))


def certify(weights: Weights, rows: int, confidence: float) -> dict[str, float]:
    """The largest log beta of each loss up to which all of the sequence are certified."""
    error = 1 - number("confidence", confidence, above=0, below=1)
    bettors = [Bettors(each, rows, error) for each in weights.problem.constraints]
    reached, stopped = np.zeros(len(bettors), int), np.zeros(len(bettors), bool)
    for start in range(0, len(weights.t), STRIDE):
        some = weights.pick(slice(start, start + STRIDE))
        capitals = some.log_capitals([each.bet for each in bettors])
        passed = [each.certified(logs) for each, logs in zip(bettors, capitals, strict=True)]
        good = np.logical_and.accumulate(passed, axis=1)
        reached += np.where(stopped, 0, good.sum(axis=1))
        stopped |= ~good[:, -1]
        if stopped.all():
            break
    log_betas = np.append(-np.inf, weights.t)
    if weights.problem.kernel.nested:
        log_betas[-1] = np.inf
    names = [each.constraint.name for each in bettors]
    return dict(zip(names, log_betas[reached].tolist(), strict=True))
