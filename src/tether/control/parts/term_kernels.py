"""Kernels that bin and collect the terms of the condition of clip without contexts, or of mix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core import validate
from tether._core.types import Floats
from tether.control.blend import blend_scores
from tether.control.constraint import Constraint
from tether.control.parts.bin_sums import bin_terms
from tether.control.parts.loss_bins import NO_LOGS, bin_losses, largest_logs
from tether.control.parts.ratio_bins import (
    LARGEST_BINNED_RATIO,
    Bins,
    BinTable,
    TopTable,
    bin_tops,
)
from tether.control.parts.rows import LogPart, ProposalsPart


def row_ratio(part: LogPart, blend: float) -> Floats:
    """The log ratio of every row."""
    if not blend:
        return part.log_ratio
    optimized = blend_scores(part.log_optimized, part.log_safe, blend)
    return np.asarray(optimized - part.log_safe)


def row_base(part: LogPart) -> Floats | None:
    """Log of safe over mixture density at every row; None where it is zero."""
    return None if part.log_mix is None else part.log_safe - part.log_mix


def candidates(part: LogPart | ProposalsPart, blend: float) -> tuple[Floats, Floats]:
    """Log ratios and log bases of all points that the safe policy can take: draws, or tables."""
    if isinstance(part, ProposalsPart):
        safe, optimized, mixture = part.log_safe, part.log_optimized, part.log_mix
    else:
        assert part.log_safe_all is not None
        assert part.log_optimized_all is not None
        safe, optimized = part.log_safe_all.ravel(), part.log_optimized_all.ravel()
        mixture = None if part.log_mix_all is None else part.log_mix_all.ravel()
    possible = safe > -np.inf
    safe, optimized = safe[possible], optimized[possible]
    ratio = blend_scores(optimized, safe, blend) - safe
    base = np.zeros(len(safe)) if mixture is None else safe - mixture[possible]
    return np.asarray(ratio), base


@dataclass(frozen=True)
class BinnedRows:
    """Tables by constraint, and the logs of the largest positive and negative amounts."""

    tables: tuple[BinTable, ...]
    largest: tuple[tuple[float, float], ...]

    def merge(self, other: BinnedRows) -> BinnedRows:
        """Those of both."""
        tables = zip(self.tables, other.tables, strict=True)
        largest = zip(self.largest, other.largest, strict=True)
        return BinnedRows(
            tuple(first.merge(second) for first, second in tables),
            tuple(
                (max(first[0], second[0]), max(first[1], second[1])) for first, second in largest
            ),
        )


@dataclass(frozen=True)
class BinRows:
    """The rows of a log in bins, for each constraint."""

    constraints: tuple[Constraint, ...]
    blend: float
    bins: Bins
    zeros: bool = False
    """Whether rows with a ratio of zero count, as they do for mix."""

    def of(self, part: LogPart) -> BinnedRows:
        """The tables of a part."""
        ratio, base = row_ratio(part, self.blend), row_base(part)
        known = None if self.blend else part.ratio_range
        if self.zeros:
            ratio, known = np.maximum(ratio, -LARGEST_BINNED_RATIO), None
        tables, largest = [], []
        for each in self.constraints:
            loss = part.loss[each.name]
            losses = part.loss_ranges[each.name]
            if losses[1] > each.bound:
                check_bound(each, loss, several=len(part.loss) > 1)
            if base is None and self.bins.left is None:
                table, logs = bin_losses(each, ratio, loss, known, losses)
            else:
                amount = each.signed(loss)
                table, logs = (
                    bin_terms(self.bins, ratio, amount, base),
                    _largest(ratio, amount, base),
                )
            tables.append(table)
            largest.append(logs)
        return BinnedRows(tuple(tables), tuple(largest))


def check_bound(constraint: Constraint, loss: Floats, *, several: bool) -> None:
    """Refuse losses above their bound."""
    key = f"[{constraint.name!r}]" if several else ""
    validate.reject_above_bound(f"loss{key}", loss, constraint.bound)


def _largest(ratio: Floats, amount: Floats, base: Floats | None) -> tuple[float, float]:
    """Logs of the largest positive and of the largest negative amount of a row that counts."""
    counts = ratio > -np.inf
    amount = amount if counts.all() else np.where(counts, amount, 0.0)
    if base is None:
        return largest_logs(amount)
    with np.errstate(divide="ignore"):
        logs = np.log(np.abs(amount)) + base
    return (
        float(logs.max(initial=-np.inf, where=amount > 0)),
        float(logs.max(initial=-np.inf, where=amount < 0)),
    )


@dataclass(frozen=True)
class BinDraws:
    """Draws in bins as positive terms: what a fixed test weight adds, which bounds w/ψ.

    A draw has the amount e^log_amount · safe / mass, with mass = n₀·safe + n₁·optimized, or with
    the rows of the log as draws, n·mixture.
    """

    log_amounts: tuple[float, ...]
    counts: tuple[int, int]
    blend: float
    bins: Bins

    def of(self, part: LogPart | ProposalsPart) -> BinnedRows:
        """The tables of a part."""
        ratio, log_size = self.terms(part)
        ones = np.ones(len(ratio))
        tables = [bin_terms(self.bins, ratio, ones, log_size + each) for each in self.log_amounts]
        return BinnedRows(tuple(tables), (NO_LOGS,) * len(tables))

    def terms(self, part: LogPart | ProposalsPart) -> tuple[Floats, Floats]:
        """Their log ratios, and the logs of their amounts."""
        if isinstance(part, LogPart):
            base = row_base(part)
            size = np.zeros(len(part)) if base is None else base
            return row_ratio(part, self.blend), size - np.log(sum(self.counts))
        possible = part.log_safe > -np.inf
        safe, optimized = part.log_safe[possible], part.log_optimized[possible]
        ratio = np.asarray(blend_scores(optimized, safe, self.blend) - safe)
        with np.errstate(divide="ignore"):
            log_counts = np.log(self.counts)
        return ratio, -np.logaddexp(log_counts[0], log_counts[1] + optimized - safe)


@dataclass(frozen=True)
class BinTops:
    """The candidates of the test weight in bins."""

    blend: float
    bins: Bins

    def of(self, part: LogPart | ProposalsPart) -> TopTable:
        """The table of a part."""
        return bin_tops(self.bins, *candidates(part, self.blend))


@dataclass(frozen=True)
class Gathered:
    """Columns of collected rows, in no particular order."""

    parts: tuple[tuple[Floats, ...], ...]

    def merge(self, other: Gathered) -> Gathered:
        """Those of both."""
        return Gathered(self.parts + other.parts)

    def sorted(self) -> tuple[Floats, ...]:
        """All columns, ordered by the first, then by the others, whatever the order of parts."""
        columns = [np.concatenate(each) for each in zip(*self.parts, strict=True)]
        order = np.lexsort(columns[::-1])
        return tuple(column[order] for column in columns)


@dataclass(frozen=True)
class CollectRows:
    """The ratios, bases and losses of the rows whose ratios lie in some intervals."""

    names: tuple[str, ...]
    blend: float
    left: Floats
    right: Floats

    def of(self, part: LogPart) -> Gathered:
        """The rows of a part."""
        ratio, base = row_ratio(part, self.blend), row_base(part)
        near = np.flatnonzero((ratio >= self.left[0]) & (ratio < self.right[-1]))
        _, inside = Bins(self.left, self.right).place(ratio[near])
        kept = near[inside]
        bases = np.zeros(len(kept)) if base is None else base[kept]
        losses = (part.loss[name][kept] for name in self.names)
        return Gathered(((ratio[kept], bases, *losses),))


@dataclass(frozen=True)
class CollectDraws:
    """The ratios and log amounts of draws in some intervals."""

    draws: BinDraws | BinTops
    left: Floats
    right: Floats

    def of(self, part: LogPart | ProposalsPart) -> Gathered:
        """The draws of a part."""
        if isinstance(self.draws, BinDraws):
            ratio, size = self.draws.terms(part)
        else:
            ratio, size = candidates(part, self.draws.blend)
        _, inside = Bins(self.left, self.right).place(ratio)
        return Gathered(((ratio[inside], size[inside]),))


@dataclass(frozen=True)
class BestTops:
    """At each of several betas, the candidate with the largest weight under mix.

    The weight is base·(1 + β·ratio); at an infinite beta, base·ratio.
    """

    log_betas: Floats
    blend: float

    def of(self, part: LogPart | ProposalsPart) -> TopPoints:
        """The best of a part."""
        ratio, base = candidates(part, self.blend)
        if not len(ratio):
            return TopPoints(*np.full((3, len(self.log_betas)), -np.inf))
        best = []
        for log_beta in self.log_betas.tolist():
            grown = base + (ratio if np.isinf(log_beta) else np.logaddexp(0.0, ratio + log_beta))
            best.append(np.flatnonzero(grown == grown.max()))
        found = []
        for log_beta, tied in zip(self.log_betas.tolist(), best, strict=True):
            pick = tied[np.lexsort((base[tied], ratio[tied]))[-1]]
            grown = base[pick] + (
                ratio[pick] if np.isinf(log_beta) else np.logaddexp(0.0, ratio[pick] + log_beta)
            )
            found.append((grown, ratio[pick], base[pick]))
        return TopPoints(*np.array(found).T)


@dataclass(frozen=True)
class TopPoints:
    """One candidate per beta, with its weight."""

    weight: Floats
    ratio: Floats
    base: Floats

    def merge(self, other: TopPoints) -> TopPoints:
        """The heavier of each; of equal ones that with the larger ratio, then base."""
        better = other.weight > self.weight
        tied = other.weight == self.weight
        better |= tied & (other.ratio > self.ratio)
        better |= tied & (other.ratio == self.ratio) & (other.base > self.base)
        return TopPoints(
            np.where(better, other.weight, self.weight),
            np.where(better, other.ratio, self.ratio),
            np.where(better, other.base, self.base),
        )
