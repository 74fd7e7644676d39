"""Sums over rows at one beta, from which the diagnostics of a calibration follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats
from tether.control.constraint import Constraint
from tether.control.parts.log_sum import LogSums
from tether.control.parts.ratio_bins import Bins
from tether.control.parts.rows import LogPart, ProposalsPart
from tether.control.parts.term_kernels import BinDraws, candidates, row_base, row_ratio
from tether.control.parts.weights import WeightsOfPart
from tether.control.score_checks import SAME_SCORE_TOLERANCE

HEAVIER_MARGIN = 1e-9
"""By how much, in logs, a row must be heavier than the test point to be counted."""


@dataclass(frozen=True)
class SummedRows:
    """Logs of sums of weights, squares and weighted losses; the largest weight; counts."""

    sums: LogSums
    largest: float
    beyond: int
    heavier: int

    def merge(self, other: SummedRows) -> SummedRows:
        """Those of both."""
        return SummedRows(
            self.sums.merge(other.sums),
            max(self.largest, other.largest),
            self.beyond + other.beyond,
            self.heavier + other.heavier,
        )


@dataclass(frozen=True)
class SumRows:
    """Σw, Σw², and for each constraint Σf·w and Σf·w·l with its factors f, at one beta.

    With `safe` also the sums that the mean loss of the safe policy needs. Rows are counted whose
    ratio is larger than every draw's, and whose weight is larger than the test point's.
    """

    weights: WeightsOfPart
    log_beta: float
    constraints: tuple[Constraint, ...]
    highest_drawn: float = np.inf
    log_test: float = np.inf
    without: LeftOut | None = None

    def of(self, part: LogPart) -> SummedRows:
        """The sums of a part."""
        rows = self.weights.log_weights(part, self.log_beta)
        base = row_base(part)
        base = np.zeros(len(rows)) if base is None else base
        ratio = row_ratio(part, self.weights.blend)
        return SummedRows(
            LogSums.of(self._terms(part, rows, base, ratio)),
            float(rows.max()),
            int((ratio > self.highest_drawn + SAME_SCORE_TOLERANCE).sum()),
            int((rows > self.log_test + HEAVIER_MARGIN).sum()),
        )

    def _terms(self, part: LogPart, rows: Floats, base: Floats, ratio: Floats) -> Iterator[Floats]:
        """The logs of all terms, one sum after the other."""
        yield from (rows, 2 * rows, base, 2 * base)
        for each in self.constraints:
            loss = part.loss[each.name]
            with np.errstate(divide="ignore"):
                log_loss = np.log(loss)
            factor = np.log(each.factors(loss))
            yield rows + factor
            yield rows + factor + log_loss
            yield base + log_loss
            yield 2 * base + log_loss
            yield 2 * base + 2 * log_loss
        if self.without is not None:
            yield self.without.log_changes(part, ratio, base, rows)


class LeftOut:
    """How far the policy moves when a row is left out."""

    def log_changes(self, part: LogPart, ratio: Floats, base: Floats, rows: Floats) -> Floats:
        """Log of the change of each row's weight, in logs `rows`, at the beta without it."""
        raise NotImplementedError


@dataclass(frozen=True)
class SumDraws:
    """Over draws, Σ kernel/mass at several betas: the normalizer of clip without contexts."""

    weights: WeightsOfPart
    log_betas: tuple[float, ...]
    counts: tuple[int, int]

    def of(self, part: LogPart | ProposalsPart) -> LogSums:
        """The sums of a part."""
        draws = BinDraws((0.0,), self.counts, self.weights.blend, Bins())
        ratio, size = draws.terms(part)
        return LogSums.of([np.minimum(ratio, log_beta) + size for log_beta in self.log_betas])


@dataclass(frozen=True)
class Largest:
    """Numbers of which the largest are kept."""

    values: Floats

    def merge(self, other: Largest) -> Largest:
        """The larger ones."""
        return Largest(np.maximum(self.values, other.values))


@dataclass(frozen=True)
class TestWeights:
    """The largest weight of a candidate at several betas: draws, or what is stored in each row."""

    weights: WeightsOfPart
    log_betas: tuple[float, ...]

    def of(self, part: LogPart | ProposalsPart) -> Largest:
        """The largest in a part."""
        if not self.weights.direct:
            assert isinstance(part, LogPart)
            problem = self.weights.problem(part)
            found = [problem.test_weight.log_weight(problem, each) for each in self.log_betas]
            return Largest(np.array(found))
        ratio, base = candidates(part, self.weights.blend)
        if not len(ratio):
            return Largest(np.full(len(self.log_betas), -np.inf))
        family, zero = self.weights.family, np.zeros(len(ratio))
        found = [(family.log_density(zero, ratio, b, 0.0) + base).max() for b in self.log_betas]
        return Largest(np.array(found))


@dataclass(frozen=True)
class RowWeights:
    """The log-weights of rows at one beta, as values."""

    weights: WeightsOfPart
    log_beta: float

    def of(self, part: LogPart) -> Floats:
        """Those of a part."""
        return self.weights.log_weights(part, self.log_beta)


@dataclass(frozen=True)
class SumSides:
    """For each constraint, Σ|a|·w over the rows above alpha and over those below it."""

    weights: WeightsOfPart
    log_beta: float
    constraints: tuple[Constraint, ...]

    def of(self, part: LogPart) -> LogSums:
        """The sums of a part."""
        rows = self.weights.log_weights(part, self.log_beta)
        terms = []
        for each in self.constraints:
            amount = each.signed(part.loss[each.name])
            with np.errstate(divide="ignore"):
                logs = np.log(np.abs(amount)) + rows
            terms += [logs[amount > 0], logs[amount < 0]]
        return LogSums.of(terms)


@dataclass(frozen=True)
class ConstraintAtBetas:
    """One constraint at each of several betas: what the sums of its risks are made of."""

    weights: WeightsOfPart
    log_betas: tuple[float, ...]
    constraint: Constraint

    def log_losses(self, part: LogPart) -> tuple[Floats | float, Floats]:
        """The logs of f and of l in each row of a part."""
        loss = part.loss[self.constraint.name]
        with np.errstate(divide="ignore"):
            log_loss = np.log(loss)
        return np.log(self.constraint.factors(loss)), log_loss


@dataclass(frozen=True)
class SumRisks(ConstraintAtBetas):
    """At each of several betas, Σf·w and Σf·w·l of one constraint."""

    def of(self, part: LogPart) -> LogSums:
        """The sums of a part."""
        factor, log_loss = self.log_losses(part)
        at = self.weights.at_betas(part)
        terms = []
        for log_beta in self.log_betas:
            rows = at(log_beta) + factor
            terms += [rows, rows + log_loss]
        return LogSums.of(terms)


@dataclass(frozen=True)
class SumAcceptance:
    """Σ of one over the acceptance rate in the context of each row."""

    weights: WeightsOfPart
    log_beta: float

    def of(self, part: LogPart) -> LogSums:
        """The sum of a part."""
        return LogSums.of([-self.weights.problem(part).densities.log_acceptance(self.log_beta)])
