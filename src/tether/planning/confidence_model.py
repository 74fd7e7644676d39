"""The model of a plan with a confidence: what a log of a given size can be expected to certify.

A log passes if the first beta of the sequence is certified (`tether.control.high_probability`).
There the tethered policy is the safe one and every weight is 1, whatever the family, the ratios and
the contexts. So only losses decide: with stakes λ and their shares s of the capital, a log of n
rows passes if

    Σ s·Π (1 − λ·(l_i − α))  ≥  1/δ.

For losses of 0 or one size, only the number of harmful rows is random, and the capital falls with
it: the probability to pass is a binomial one, and exact. Otherwise the log of each product is taken
at its expectation given the mean loss, as in `tether.planning.plan_model`.

Further betas are certified by the weights as well. Beta is the one that the real test finds where
the log of the capital at every beta and stake is at its expectation: the rows of the population,
each counted as often as it is to be expected. Losses are in units of the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from tether._core.types import Floats
from tether.control.acting_weights import ActingWeights
from tether.control.engine import Constraint
from tether.control.families import DEFAULT_BLEND, find_family
from tether.control.high_probability import log_beta_sequence, weighted_losses
from tether.control.problem import pose
from tether.control.risk_betting import WeightedLosses, is_certified, spread_bets
from tether.planning.plan_model import Outlook
from tether.planning.population import TYPICAL_SHARE, Population
from tether.planning.representative_log import PLANNED_LOSS, RepresentativeLog

LOSS_DIGITS = 12
"""Losses that agree in so many decimals are the same, in units of the bound."""
LARGEST_PLANNED_LOG_BETA = 709.0
"""The exponential of more than this is not a float."""


@dataclass(frozen=True)
class CountedLosses(WeightedLosses):
    """Kinds of rows, and how many rows of each to expect."""

    count: Floats

    def log_capital(self, stake: float, alpha: float) -> float:
        """Log of the capital to expect of one bettor who began with 1.

        Factors beyond those that half of all logs contain count as the most extreme ones that they
        do: a factor of 0 that hardly any log has must not decide.
        """
        if self.refuted:
            return -np.inf
        factor = self.factors(stake, alpha)
        order = np.argsort(factor, kind="stable")
        below = np.cumsum(self.count[order])
        ends = np.searchsorted(below, (TYPICAL_SHARE, below[-1] - TYPICAL_SHARE))
        least, most = factor[order[np.minimum(ends, len(order) - 1)]]
        with np.errstate(divide="ignore"):
            return float(self.count @ np.log(np.clip(factor, least, max(least, most))))


@dataclass(frozen=True)
class ConfidenceModel:
    """What to expect of a family that is certified with a probability of 1 − `error`."""

    population: Population
    rows: RepresentativeLog
    family: str
    error: float

    def with_mean(self, mean: float) -> Self:
        """What to expect of logs with this mean loss, as far as it decides whether they pass."""
        return replace(self, population=self.population.with_mean(mean))

    def passes(self, alpha: float, rows: int) -> bool:
        """Whether the first beta is certified."""
        loss, share = self._losses
        return self._certifies(alpha, rows, loss, rows * share)

    def passes_with(self, harmful: float, alpha: float, rows: int) -> bool:
        """The same where so many rows have the size of losses, and the others none."""
        size = self.population.loss_size
        count = np.array([rows - harmful, harmful])
        return harmful <= rows and self._certifies(alpha, rows, np.array([0.0, size]), count)

    @property
    def two_valued(self) -> bool:
        """Whether losses are 0 or of one size."""
        return len(self._losses[0]) <= 2 and float(self._losses[0][0]) == 0

    def outlook(self, alpha: float, rows: int) -> Outlook:
        """The largest beta to expect to be certified; with one, alpha is what is promised."""
        constraint, bets = (
            Constraint(PLANNED_LOSS, alpha, 1.0),
            spread_bets(rows, alpha, 1.0, self.error),
        )
        problem, count = self._weights.problem, rows * self.rows.share
        found, first = -math.inf, 0
        for log_beta in log_beta_sequence(problem).tolist():
            losses = weighted_losses(problem, constraint, self._weights.at(log_beta))
            counted = CountedLosses(**vars(losses), count=count)
            good, first = is_certified(bets, counted, alpha, self.error, first)
            if not good:
                break
            found = log_beta
        if found == -math.inf:
            return Outlook(alpha, 0.0, 1.0)
        return Outlook(
            alpha, math.exp(found) if found < LARGEST_PLANNED_LOG_BETA else math.inf, alpha
        )

    def _certifies(self, alpha: float, rows: int, loss: Floats, count: Floats) -> bool:
        """Whether so many rows of each loss certify the safe policy, whose weights are all 1."""
        seen, limit = count > 0, np.ones(1)
        weight = np.ones(int(seen.sum()))
        losses = CountedLosses(loss[seen], weight, limit, 1.0, refuted=False, count=count[seen])
        bets = spread_bets(rows, alpha, 1.0, self.error)
        return is_certified(bets, losses, alpha, self.error)[0]

    @cached_property
    def _losses(self) -> tuple[Floats, Floats]:
        """Every loss of the population, and its share."""
        loss, kind = np.unique(np.round(self.population.loss, LOSS_DIGITS), return_inverse=True)
        return loss, np.bincount(kind, self.population.share).astype(np.float64)

    @cached_property
    def _weights(self) -> ActingWeights:
        of, family = self.rows, find_family(self.family)
        return ActingWeights(pose(of.log, of.proposals, family, "empirical", DEFAULT_BLEND))
