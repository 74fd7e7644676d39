"""Sums over rows at many betas at once, of clip without contexts and of mix.

Clip weighs a row by its optimized density where its ratio is at most beta, and by beta times its
safe density elsewhere; mix by both. So rows are divided by the betas between which their ratios
lie, and each beta adds up what lies on its two sides: the work for a row does not grow with the
number of betas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats, Integers
from tether.control.families import Clip, Mix
from tether.control.parts.log_sum import EMPTY_SUM, LogSum, LogSums
from tether.control.parts.row_sums import ConstraintAtBetas, Largest, SumRisks, TestWeights
from tether.control.parts.rows import LogPart, ProposalsPart
from tether.control.parts.term_kernels import candidates, row_base, row_ratio
from tether.control.parts.weights import WeightsOfPart


@dataclass(frozen=True)
class RisksAtBetas(ConstraintAtBetas):
    """Σf·w and Σf·w·l of one constraint at each of several betas, ascending and finite."""

    @property
    def kernel(self) -> SumRisks | SplitRisks:
        """What is reduced over rows."""
        given = (self.weights, self.log_betas, self.constraint)
        return SplitRisks(*given) if can_split(self.weights) else SumRisks(*given)

    def logs(self, found: LogSums | SplitSums) -> Floats:
        """The logs of both sums, one row per beta."""
        if isinstance(found, LogSums):
            return found.logs.reshape(-1, 2)
        return found.at(np.array(self.log_betas), mixed=isinstance(self.weights.family, Mix))


@dataclass(frozen=True)
class SplitSums:
    """Sums of optimized and of safe densities over mixture, for the rows between two betas each.

    Each place has the sum of f times the densities, and of f times them times the loss.
    """

    optimized: LogSums
    safe: LogSums

    def merge(self, other: SplitSums) -> SplitSums:
        """Those of both."""
        return SplitSums(self.optimized.merge(other.optimized), self.safe.merge(other.safe))

    def at(self, log_betas: Floats, *, mixed: bool) -> Floats:
        """The logs of the sums of weights at each beta, without and with the loss."""
        if mixed:
            both = self.safe.logs, self.optimized.logs + log_betas[:, None]
            return np.asarray(np.logaddexp(*both) - np.logaddexp(0.0, log_betas)[:, None])
        below = np.stack([_running(self.optimized.each[k::2])[:-1] for k in range(2)], axis=1)
        above = np.stack([_running(self.safe.each[k::2][::-1])[-2::-1] for k in range(2)], axis=1)
        return np.asarray(np.logaddexp(below, above + log_betas[:, None]))


@dataclass(frozen=True)
class SplitRisks(ConstraintAtBetas):
    """The sums of a part, by the number of betas below the ratio of each row; of mix, of all rows.

    `log_betas` are ascending.
    """

    def of(self, part: LogPart) -> SplitSums:
        """Those of a part."""
        factor, log_loss = self.log_losses(part)
        ratio, base = row_ratio(part, self.weights.blend), row_base(part)
        safe = factor + (np.zeros(len(log_loss)) if base is None else base)
        groups: Sequence[Integers | slice] = [slice(None)]
        if not isinstance(self.weights.family, Mix):
            groups = _groups(ratio, self.log_betas)
        return SplitSums(
            LogSums.of(_terms(safe + ratio, log_loss, groups)),
            LogSums.of(_terms(safe, log_loss, groups)),
        )


@dataclass(frozen=True)
class SplitTestWeights(TestWeights):
    """The same largest weights, of clip without contexts, with less work per draw."""

    def of(self, part: LogPart | ProposalsPart) -> Largest:
        """The largest in a part."""
        ratio, base = candidates(part, self.weights.blend)
        groups = _groups(ratio, self.log_betas)
        free = [(base[each] + ratio[each]).max(initial=-np.inf) for each in groups]
        cut = [base[each].max(initial=-np.inf) for each in groups]
        above = np.maximum.accumulate(cut[::-1])[-2::-1] + np.array(self.log_betas)
        return Largest(np.maximum(np.maximum.accumulate(free)[:-1], above))


def can_split(weights: WeightsOfPart) -> bool:
    """Whether the weights of rows are those of clip without contexts, or of mix."""
    return weights.direct and isinstance(weights.family, (Clip, Mix))


def find_test_weights(weights: WeightsOfPart, log_betas: tuple[float, ...]) -> TestWeights:
    """The kernel of the largest weights at betas, of which many are ascending and finite."""
    splits = weights.direct and isinstance(weights.family, Clip) and len(log_betas) > 1
    return SplitTestWeights(weights, log_betas) if splits else TestWeights(weights, log_betas)


def _groups(ratio: Floats, log_betas: tuple[float, ...]) -> list[Integers]:
    """Rows by the number of betas below their ratios, one group more than betas."""
    below = np.searchsorted(np.array(log_betas), ratio)
    order = np.argsort(below, kind="stable")
    ends = np.cumsum(np.bincount(below, minlength=len(log_betas) + 1))
    return np.split(order, ends[:-1])


def _terms(logs: Floats, log_loss: Floats, groups: Iterable[Integers | slice]) -> Iterator[Floats]:
    for each in groups:
        yield logs[each]
        yield logs[each] + log_loss[each]


def _running(sums: Iterable[LogSum]) -> Floats:
    """The logs of the sums of the first, of the first two, and so on."""
    total, found = EMPTY_SUM, []
    for each in sums:
        total = total.merge(each)
        found.append(total.log)
    return np.array(found)
