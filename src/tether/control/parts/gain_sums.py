"""Sums over rows from which the gain of a calibration is estimated, in two or three passes.

With the shares s_i of a policy's weights and values v_i, the first pass gives the means Σ s·v, the
second what leaving out each row moves them by, and the squares that the intervals need. A sum with
terms of both signs is kept as two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats
from tether.control.changed_share import _distances
from tether.control.parts.log_sum import LogSums
from tether.control.parts.rows import LogPart
from tether.control.parts.weights import WeightsOfPart

THREE_POLICIES = ("safe", "tethered", "optimized")
LEAST_REST = 0.5
"""A row with more than the rest of the weights leaves too few rows to state anything."""


@dataclass(frozen=True)
class PolicyWeights:
    """The log-weights of rows for the safe, the tethered and the optimized policy."""

    weights: WeightsOfPart
    log_beta: float

    def of(self, part: LogPart) -> list[Floats]:
        """Those of a part; the optimized policy as it was given, without any blend."""
        mixture = part.log_safe if part.log_mix is None else part.log_mix
        safe = part.log_safe - mixture
        tethered = safe
        if self.log_beta > -np.inf:
            tethered = self.weights.log_weights(part, self.log_beta)
        return [safe, tethered, part.log_optimized - mixture]


def quantities(part: LogPart, names: tuple[str, ...]) -> list[Floats]:
    """The rewards, if there are any, and the losses."""
    rewards = [] if part.reward is None else [part.reward]
    return rewards + [part.loss[name] for name in names]


@dataclass(frozen=True)
class GainSums:
    """Sums of logs, and the ranges of every quantity where each policy's weights are not zero."""

    sums: LogSums
    low: Floats
    high: Floats

    def merge(self, other: GainSums) -> GainSums:
        """Those of both."""
        return GainSums(
            self.sums.merge(other.sums),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


@dataclass(frozen=True)
class SumGains:
    """Σw and Σw² of each policy, and Σw·v of each quantity; of tables the changed share too."""

    policies: PolicyWeights
    names: tuple[str, ...]
    tables: bool

    def of(self, part: LogPart) -> GainSums:
        """The sums of a part."""
        rows, values = self.policies.of(part), quantities(part, self.names)
        terms: list[Floats] = []
        low, high = np.full((2, 3, len(values)), np.nan)
        for p, weight in enumerate(rows):
            terms += [weight, 2 * weight]
            counts = weight > -np.inf
            for q, value in enumerate(values):
                terms += signed_logs(value, weight)
                low[p, q] = value.min(initial=np.inf, where=counts)
                high[p, q] = value.max(initial=-np.inf, where=counts)
        if self.tables:
            problem = self.policies.weights.problem(part)
            log_beta = self.policies.log_beta
            moved = np.zeros(len(part)) if log_beta == -np.inf else _distances(problem, log_beta)
            with np.errstate(divide="ignore"):
                terms += [np.log(moved), 2 * np.log(moved)]
        return GainSums(LogSums.of(terms), low, high)


@dataclass(frozen=True)
class SumMoves:
    """Of each quantity, Σ and Σ² of what leaving out each row moves, and Σ s²·(v − center)².

    The moves are those of the means of the three policies, and of the difference between the
    tethered and the safe one.
    """

    policies: PolicyWeights
    names: tuple[str, ...]
    log_totals: tuple[float, float, float]
    means: tuple[tuple[float, ...], ...]
    centers: tuple[tuple[float, ...], ...]

    def of(self, part: LogPart) -> LogSums:
        """The sums of a part."""
        weights, values = self.policies.of(part), quantities(part, self.names)
        shares = [np.exp(w - total) for w, total in zip(weights, self.log_totals, strict=True)]
        terms: list[Floats] = []
        for q, value in enumerate(values):
            # Nothing is stated of a policy of which one row is nearly all that the log has.
            moves = [
                share * (value - self.means[p][q]) / np.maximum(1 - share, LEAST_REST)
                for p, share in enumerate(shares)
            ]
            moves.append(moves[1] - moves[0])
            for each in moves:
                terms += [*signed_logs(each), square_logs(each)]
            for p, share in enumerate(shares):
                terms.append(square_logs(share * (value - self.centers[p][q])))
        less = shares[0] > shares[1]
        with np.errstate(divide="ignore"):
            terms += [np.log(np.where(less, each, 0.0)) for each in shares[:2]]
        return LogSums.of(terms)


@dataclass(frozen=True)
class SumChanges:
    """Σ and Σ² of the linearized share of decisions that change (see `changed_share`)."""

    policies: PolicyWeights
    log_means: tuple[float, float]
    parts: tuple[float, float]

    def of(self, part: LogPart) -> LogSums:
        """The sums of a part."""
        weights = self.policies.of(part)
        safe, tethered = (np.exp(weights[k] - self.log_means[k]) for k in (0, 1))
        lost = np.maximum(safe - tethered, 0.0)
        value = lost - (safe - 1) * self.parts[0] + (tethered - 1) * self.parts[1]
        return LogSums.of([*signed_logs(value), square_logs(value)])


def signed_logs(values: Floats, log_weight: Floats | float = 0.0) -> list[Floats]:
    """Logs of the positive and of the negative parts of values, with a weight."""
    with np.errstate(divide="ignore"):
        return [
            np.log(np.maximum(values, 0.0)) + log_weight,
            np.log(np.maximum(-values, 0.0)) + log_weight,
        ]


def square_logs(values: Floats) -> Floats:
    """Logs of squares."""
    with np.errstate(divide="ignore"):
        return np.asarray(2 * np.log(np.abs(values)))
