"""Tables of claims by score: for each bin of scores, how the sum of losses changes in it.

A bin is a range of scores, down to a single one. In a bin the sum of losses changes by `totals`,
and nowhere rises by more than `rises` above where it was at its beginning.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_losses import LossFunction, claim_loss
from tether.risk.claim_parts import ClaimPart
from tether.risk.claim_steps import claim_steps, event_index
from tether.risk.exact_sums import ExactSums
from tether.risk.risk_curve import checked_thresholds
from tether.risk.score_order import ordered_bits

ScoreBits: TypeAlias = NDArray[np.uint64]
"""Scores as integers in the same order."""


@dataclass(frozen=True)
class LossTerms:
    """A loss by name or as a function, and its bound."""

    loss: str | LossFunction
    bound: float


@dataclass(frozen=True, eq=False)
class LossColumn:
    """What the bins of a table say of one loss, in units of its bound."""

    totals: ExactSums
    rises: ExactSums
    start: ExactSums
    safest: ExactSums
    safest_squares: ExactSums
    n_nonmonotone: int

    def merge(self, other: LossColumn, place: Integers, count: int) -> LossColumn:
        """Both, where bin i of the two tables together becomes bin `place[i]` of `count`."""

        def joined(first: ExactSums, second: ExactSums) -> ExactSums:
            both = ExactSums(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
            return both.gathered(place, count)

        return LossColumn(
            joined(self.totals, other.totals),
            joined(self.rises, other.rises),
            self.start.added(other.start),
            self.safest.added(other.safest),
            self.safest_squares.added(other.safest_squares),
            self.n_nonmonotone + other.n_nonmonotone,
        )

    def take(self, bins: Integers) -> LossColumn:
        """Some of the bins, in this order."""
        totals = ExactSums(self.totals.high[bins], self.totals.low[bins])
        rises = ExactSums(self.rises.high[bins], self.rises.low[bins])
        return LossColumn(
            totals, rises, self.start, self.safest, self.safest_squares, self.n_nonmonotone
        )


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Bins in increasing order: their keys, extreme scores and numbers of claims, and the losses.

    `tops` are the numbers of items whose highest score is in a bin; `weights` and `squares` are
    the sums of the items' weights and of their squares.
    """

    keys: ScoreBits
    lowest: Floats
    highest: Floats
    counts: Integers
    tops: Integers
    losses: tuple[LossColumn, ...]
    weights: ExactSums
    squares: ExactSums

    def merge(self, other: ScoreTable) -> ScoreTable:
        """The table of both."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        tops = np.zeros(len(keys), dtype=np.int64)
        np.add.at(tops, place, np.concatenate([self.tops, other.tops]))
        lowest, highest = np.full(len(keys), np.inf), np.full(len(keys), -np.inf)
        np.minimum.at(lowest, place, np.concatenate([self.lowest, other.lowest]))
        np.maximum.at(highest, place, np.concatenate([self.highest, other.highest]))
        pairs = zip(self.losses, other.losses, strict=True)
        return ScoreTable(
            keys,
            lowest,
            highest,
            counts,
            tops,
            tuple(first.merge(second, place, len(keys)) for first, second in pairs),
            self.weights.added(other.weights),
            self.squares.added(other.squares),
        )

    def replaced(self, bins: Booleans, finer: ScoreTable) -> ScoreTable:
        """The table in which some bins are replaced by finer ones of the same claims."""
        rest = self._take(np.flatnonzero(~bins))
        # Bins of different tables never share a score, so their lowest scores order them.
        order = np.argsort(np.concatenate([rest.lowest, finer.lowest]), kind="stable")
        joined = [
            rest_loss.merge(finer_loss, np.argsort(order), len(order))
            for rest_loss, finer_loss in zip(rest.losses, finer.losses, strict=True)
        ]
        return ScoreTable(
            np.arange(len(order), dtype=np.uint64),
            np.concatenate([rest.lowest, finer.lowest])[order],
            np.concatenate([rest.highest, finer.highest])[order],
            np.concatenate([rest.counts, finer.counts])[order],
            np.concatenate([rest.tops, finer.tops])[order],
            tuple(
                # What belongs to the items and not to bins is in both tables, and counts once.
                LossColumn(
                    new.totals,
                    new.rises,
                    old.start,
                    old.safest,
                    old.safest_squares,
                    old.n_nonmonotone,
                )
                for new, old in zip(joined, self.losses, strict=True)
            ),
            self.weights,
            self.squares,
        )

    def _take(self, bins: Integers) -> ScoreTable:
        return ScoreTable(
            self.keys[bins],
            self.lowest[bins],
            self.highest[bins],
            self.counts[bins],
            self.tops[bins],
            tuple(column.take(bins) for column in self.losses),
            self.weights,
            self.squares,
        )


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """Make the table of some bins of scores, or of every score in them.

    `lows` and `highs` are the first and the last score of each bin. Where `thresholds` are given,
    the bins are their numbers, and a claim lies in the bin of the first that it meets.
    """

    groups: Collection[Any] | None
    losses: tuple[LossTerms, ...]
    envelope: bool
    lows: ScoreBits | None = None
    highs: ScoreBits | None = None
    every_score: bool = False
    thresholds: Floats | None = None
    log_weight: float | None = None

    def partial(self, whole: ClaimPart) -> ScoreTable:
        """The table of one part."""
        part = whole.among(self.groups)
        if part is None:
            return self._empty()
        scores, n_items = part.claims.scores, part.claims.n_items
        weights = np.ones(n_items)
        if self.log_weight is not None:
            assert part.log_weights is not None
            weights = np.exp(part.log_weights - self.log_weight)
        bins, inside = self._bins(scores)
        keys, place = np.unique(bins[inside], return_inverse=True)
        lowest, highest = np.full(len(keys), np.inf), np.full(len(keys), -np.inf)
        np.minimum.at(lowest, place, scores[inside] + 0.0)
        np.maximum.at(highest, place, scores[inside] + 0.0)
        return ScoreTable(
            keys,
            lowest,
            highest,
            np.bincount(place, minlength=len(keys)).astype(np.int64),
            self._tops(part, keys),
            tuple(
                self._column(part, each, weights, inside, place, len(keys)) for each in self.losses
            ),
            ExactSums.total(weights),
            ExactSums.total(np.square(weights)),
        )

    def _column(
        self,
        part: ClaimPart,
        terms: LossTerms,
        weights: Floats,
        inside: Booleans,
        place: Integers,
        count: int,
    ) -> LossColumn:
        loss, claims = claim_loss(terms.loss), part.claims
        larger = loss.safer == "larger"
        keys: NDArray[Any] = claims.scores
        unreached = None
        if self.thresholds is not None:
            candidates = checked_thresholds(self.thresholds, loss.safer)
            keys = event_index(claims.scores, candidates, larger_is_safer=larger)
            unreached = len(candidates)
        steps = claim_steps(
            claims,
            loss,
            terms.bound,
            keys,
            descending=larger and self.thresholds is None,
            unreached=unreached,
            envelope=self.envelope,
        )
        owner = np.repeat(np.arange(claims.n_items), np.diff(claims.offsets))
        values = steps.values / terms.bound
        before = steps.before / terms.bound
        safest = before
        if self.thresholds is not None:  # the safest threshold may have been met by some claims
            met = np.where(keys == 0, values, 0.0)
            safest = before + np.bincount(owner, weights=met, minlength=claims.n_items)
        weighted = (values * weights[owner])[inside]
        return LossColumn(
            ExactSums.by_key(place, weighted, count),
            ExactSums.by_key(place, np.maximum(weighted, 0.0), count),
            ExactSums.total(before * weights),
            ExactSums.total(safest),
            ExactSums.total(np.square(safest)),
            int(steps.nonmonotone.sum()),
        )

    def _tops(self, part: ClaimPart, keys: ScoreBits) -> Integers:
        """How many items have their highest score in each bin."""
        highest = np.maximum.reduceat(part.claims.scores, part.claims.offsets[:-1])
        bins, inside = self._bins(highest)
        place = np.searchsorted(keys, bins[inside])
        return np.bincount(place, minlength=len(keys)).astype(np.int64)

    def _bins(self, scores: Floats) -> tuple[ScoreBits, Booleans]:
        """The key of each claim's bin, and whether it lies in one."""
        if self.thresholds is not None:
            larger = claim_loss(self.losses[0].loss).safer == "larger"
            candidates = checked_thresholds(self.thresholds, "larger" if larger else "smaller")
            events = event_index(scores, candidates, larger_is_safer=larger)
            return events.astype(np.uint64), events < len(candidates)
        assert self.lows is not None
        assert self.highs is not None
        bits = ordered_bits(scores)
        bins = np.searchsorted(self.lows, bits, side="right") - 1
        inside = (bins >= 0) & (bits <= self.highs[np.maximum(bins, 0)])
        return (bits if self.every_score else self.lows[np.maximum(bins, 0)]), inside

    def _empty(self) -> ScoreTable:
        none = ExactSums(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        zero = ExactSums.total(np.zeros(0))
        column = LossColumn(none, none, zero, zero, zero, 0)
        return ScoreTable(
            np.zeros(0, dtype=np.uint64),
            np.zeros(0),
            np.zeros(0),
            np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=np.int64),
            (column,) * len(self.losses),
            zero,
            zero,
        )
