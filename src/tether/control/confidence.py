"""The largest beta whose risk is at most alpha with high probability over the log.

Betas are tried on a fixed increasing sequence. At each, bettors multiply a capital of 1 by
1 − λ·Z_i at every row (`chain.factors`, with alpha as the level); given the past, E[Z_i] is the
risk less alpha. While the risk is above alpha their capital makes no profit in expectation, so by
Markov's inequality it reaches 1/δ with probability at most δ. A beta is certified if it does, and
the search stops at the first that is not.

Let β* be the first beta of the sequence whose true risk is above alpha. If the result has a risk
above alpha, it is β* or comes after it, so β* was certified: probability at most δ. There is no
correction for the number of betas, nor for several losses: all must pass at every beta, and at β*
one loss is above its alpha. The sequence may not depend on the log. A gap that is chosen by the
log and then searched finely, as the grid of `engine` does, is no fixed sequence.

Several bettors with different stakes share the capital. It is a product over rows for each of them,
so it does not depend on their order, and rows of adaptively chosen rounds are allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether._core.arrays import Floats, Integers
from tether._core.validate import number
from tether.control.chain import Bet
from tether.control.engine import Constraint, Problem
from tether.control.unbiased import Weights, unbiased_weights

STAKE_STEP, STAKE_STEPS = 0.5, 8
"""The distance between neighbouring stakes in logs, and how many lie on either side."""
STAKE_SPREAD = 0.8
"""The scale of the Laplace distribution of log stakes."""
EXPECTED_VARIANCE = 2.0
"""The variance of Z for which the central stake is best, relative to α·(B − α)."""
STRIDE = 8
"""Every so many betas all bettors are asked at first."""
LEVELS, REFINEMENTS = 8, 3
"""How many levels are tried at once for the smallest that is certified, and how often."""


@dataclass(frozen=True)
class Certificate:
    """The largest certified beta of each loss, in logs; −inf where none is.

    `risk_bounds` has the smallest level that would be certified at the smallest of these betas, or
    at the first of the sequence where there is none: an upper confidence bound for a beta that was
    chosen without the log. For the beta that was found it describes the log; the promise is alpha.
    `sequence` are the log betas that were tried.
    """

    confidence: float
    log_betas: dict[str, float]
    risk_bounds: dict[str, float]
    sequence: Floats


def certify(problem: Problem, confidence: float) -> Certificate:
    """Find the largest beta up to which every beta of the fixed sequence is certified.

    Assumed: contexts come independently from one distribution; losses lie in [0, bound];
    log-probabilities are correct; neither the policies nor the number of rows were chosen from the
    losses of these rows.
    """
    error = 1 - number("confidence", confidence, above=0, below=1)
    weights = unbiased_weights(problem, "confidence")
    needed = -float(np.log(error))
    bettors = [spread_bets(len(problem.rows), each, error) for each in problem.constraints]
    reached = _walk(weights, bettors, needed)
    log_betas = np.append(-np.inf, weights.t)
    if problem.kernel.nested:
        log_betas[-1] = np.inf
    last, names = min(reached), [each.name for each in problem.constraints]
    return Certificate(
        confidence,
        {name: float(log_betas[count]) for name, count in zip(names, reached, strict=True)},
        _risk_bounds(weights.pick(np.array([max(last - 1, 0)])), bettors, needed, passed=last > 0),
        weights.t,
    )


@dataclass(frozen=True)
class Bettors:
    """A loss, the stakes of its bettors, and logs of the capital that each begins with."""

    constraint: Constraint
    stakes: Floats
    log_shares: Floats

    def bet(self, columns: Integers | None = None, level: float | None = None) -> Bet:
        """The bets of all, or at each beta of those in its columns (betas × bettors)."""
        each = self.constraint
        stakes = self.stakes[None] if columns is None else self.stakes[columns]
        level = each.alpha if level is None else level
        most = 1 / (each.ratio_error * (each.bound - level))
        return Bet(each.name, level, each.bound, np.minimum(stakes, most), each.ratio_error)

    def shares(self, columns: Integers | None = None) -> Floats:
        """Logs of what they begin with, in the shape of their stakes; once for each bettor."""
        if columns is None:
            return self.log_shares[None]
        again = np.concatenate(
            (np.zeros((len(columns), 1), bool), columns[:, 1:] == columns[:, :1]), axis=1
        )
        return np.where(again, -np.inf, self.log_shares[columns])


def spread_bets(rows: int, constraint: Constraint, error: float) -> Bettors:
    """Stakes around the best one for so many rows, should the variance of Z be as expected.

    The best stake for a variance V at the edge of certification is √(2·log(1/δ)/(n·V)). Stakes are
    Laplace distributed around it on a log scale. Those past 1/(B − α) are reduced to it: with few
    rows they are the majority, and a log without losses then passes with hardly more rows than the
    exact binomial test needs.
    """
    alpha, margin = constraint.alpha, constraint.ratio_error * (constraint.bound - constraint.alpha)
    variance = EXPECTED_VARIANCE * alpha * margin
    center = 0.5 * np.log(2 * (1 - np.log(error)) / (rows * variance))
    offset = STAKE_STEP * np.arange(-STAKE_STEPS, STAKE_STEPS + 1)
    share = np.exp(-np.abs(offset) / STAKE_SPREAD)
    stakes, place = np.unique(np.minimum(np.exp(center + offset), 1 / margin), return_inverse=True)
    return Bettors(constraint, stakes, np.log(np.bincount(place.ravel(), share / share.sum())))


def _walk(weights: Weights, bettors: Sequence[Bettors], needed: float) -> list[int]:
    """How many betas are certified before the first that is not, for each loss.

    At every eighth beta all bettors are asked, then at those before the first that fails only the
    two who did best beside it, and where these do not suffice all others.
    """
    count = len(weights.t)
    passed, asked = np.zeros((len(bettors), count), bool), np.zeros(count, bool)

    def ask(which: Integers, columns: Sequence[Integers | None]) -> list[Floats]:
        several = list(zip(bettors, columns, strict=True))
        logs = weights.pick(which).log_capitals([each.bet(column) for each, column in several])
        own = [
            found + each.shares(column) for found, (each, column) in zip(logs, several, strict=True)
        ]
        for good, found in zip(passed, own, strict=True):
            good[which] |= np.logaddexp.reduce(found, axis=1) >= needed
        return own

    def lengths(places: Integers | slice = slice(None)) -> list[int]:
        good = np.logical_and.accumulate(passed[:, places], axis=1)
        return [int(each.sum()) for each in good]

    every: list[None] = [None] * len(bettors)
    coarse = np.union1d(np.arange(0, count, STRIDE), count - 1)
    best = [found.argmax(axis=1) for found in ask(coarse, every)]
    asked[coarse] = True
    end = int(np.append(coarse, count)[lengths(coarse)].max())
    between = np.setdiff1d(np.arange(end), coarse)
    if len(between):
        right = np.searchsorted(coarse, between)
        ask(between, [np.stack((each[right - 1], each[right]), axis=1) for each in best])
    while True:
        reached = lengths()
        doubtful = [place for place in reached if place < count and not asked[place]]
        if not doubtful:
            return reached
        some = np.arange(min(doubtful), min(min(doubtful) + STRIDE, count))
        ask(some, every)
        asked[some] = True


def _risk_bounds(
    weights: Weights, bettors: Sequence[Bettors], needed: float, *, passed: bool
) -> dict[str, float]:
    """The smallest level of each loss that is certified at one beta, rounded upwards."""
    tops = [each.constraint.alpha if passed else each.constraint.bound for each in bettors]
    low, high = np.zeros(len(tops)), np.array(tops)
    for _ in range(REFINEMENTS):
        levels = np.linspace(low, high, LEVELS + 1, axis=1)[:, 1:-1]
        bets = [
            each.bet(level=level)
            for each, own in zip(bettors, levels, strict=True)
            for level in own.tolist()
        ]
        found = iter(weights.log_capitals(bets))
        for place, (each, own) in enumerate(zip(bettors, levels, strict=True)):
            totals = [np.logaddexp.reduce(next(found)[0] + each.log_shares) for _ in own]
            first = next((k for k, total in enumerate(totals) if total >= needed), len(own))
            ends = np.concatenate(([low[place]], own, [high[place]]))
            low[place], high[place] = ends[first], ends[first + 1]
    return {each.constraint.name: float(most) for each, most in zip(bettors, high, strict=True)}
