"""The losses of items as step functions in a range of scores, equal ones counted once.

Most items have no claim in a short range, so that only their loss there matters, of which few
values occur. Where scores are few, so are the different step functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats, Integers
from tether.risk.claim_losses import claim_loss
from tether.risk.claim_parts import ClaimPart
from tether.risk.claim_steps import LossPieces, claim_steps, event_index
from tether.risk.risk_curve import CELLS_PER_BLOCK, ItemEvents, checked_thresholds
from tether.risk.score_order import ordered_bits
from tether.risk.score_table import LossTerms

STEP_UNITS = 2.0**48
"""Steps of losses are added up as integers, in this part of the bound."""
LEVEL_ROUNDING = 16
"""Sums of steps are rounded to this many units, so that equal losses have the same bits."""


@dataclass(frozen=True, eq=False)
class ShapeTable:
    """By the number of events in the range: one row per shape, and how many items have it.

    A row has the level of each loss before the range, and for each event its score and the levels
    after it.
    """

    rows: dict[int, tuple[Floats, Integers]]

    def merge(self, other: ShapeTable) -> ShapeTable:
        """The shapes of both."""
        rows = dict(self.rows)
        for size, (shapes, counts) in other.rows.items():
            if size in rows:
                shapes = np.concatenate([rows[size][0], shapes])
                counts = np.concatenate([rows[size][1], counts])
            rows[size] = _distinct(shapes, counts)
        return ShapeTable(rows)

    @property
    def n_numbers(self) -> int:
        """How many numbers the table holds."""
        return sum(shapes.size for shapes, _ in self.rows.values())


@dataclass(frozen=True, eq=False)
class Shapes:
    """Collect the shapes of items between two scores, given as ordered integers."""

    groups: Collection[Any] | None
    losses: tuple[LossTerms, ...]
    low: int
    high: int
    thresholds: Floats | None = None

    def partial(self, whole: ClaimPart) -> ShapeTable:
        """The shapes of one part."""
        part = whole.among(self.groups)
        if part is None:
            return ShapeTable({})
        claims = part.claims
        larger = claim_loss(self.losses[0].loss).safer == "larger"
        meets: NDArray[Any] = claims.scores + 0.0
        keys: NDArray[Any] = claims.scores
        unreached = None
        if self.thresholds is not None:
            meets, keys, unreached = _where_met(claims.scores, self.thresholds, larger)
        bits = ordered_bits(meets)
        owner = np.repeat(np.arange(claims.n_items), np.diff(claims.offsets))
        order = np.lexsort((~bits if larger else bits, owner))
        low, high = np.uint64(self.low), np.uint64(self.high)
        safer = bits > high if larger else bits < low
        last_of_score = np.ones(len(order), dtype=np.bool_)
        last_of_score[:-1] = (owner[order][1:] != owner[order][:-1]) | (
            bits[order][1:] != bits[order][:-1]
        )
        inside = ((bits >= low) & (bits <= high))[order] & last_of_score
        starts, levels = [], []
        for terms in self.losses:
            steps = claim_steps(
                claims,
                claim_loss(terms.loss),
                terms.bound,
                keys,
                descending=larger and self.thresholds is None,
                unreached=unreached,
            )
            units = _units(steps.values[order], terms.bound)
            before = _units(steps.before, terms.bound)
            # Sums may pass the largest integer, but their differences, taken modulo 2^64, do not.
            running = np.concatenate([[0], np.cumsum(units)])
            level = running[1:] - (running[claims.offsets[:-1]] - before)[owner[order]]
            levels.append(_rounded(level[inside], terms.bound))
            n_safer = np.bincount(owner[safer], minlength=claims.n_items)
            first = claims.offsets[:-1]
            earlier = running[first + n_safer] - running[first] + before
            starts.append(_rounded(earlier, terms.bound))
        events = np.column_stack([meets[order][inside], *levels])
        return _by_size(np.column_stack(starts), events, owner[order][inside], claims.n_items)


def _where_met(scores: Floats, thresholds: Floats, larger: bool) -> tuple[Floats, Integers, int]:
    """A score that meets the same thresholds, the number of the first, and how many there are."""
    candidates = checked_thresholds(thresholds, "larger" if larger else "smaller")
    events = event_index(scores, candidates, larger_is_safer=larger)
    met = candidates if larger else np.nextafter(candidates, -np.inf)
    never = -np.inf if larger else np.inf
    return np.append(met, never)[events], events, len(candidates)


def _units(values: Floats, bound: float) -> Integers:
    return np.rint(values / bound * STEP_UNITS).astype(np.int64)


def _rounded(units: Integers, bound: float) -> Floats:
    levels = np.rint(units / LEVEL_ROUNDING) * (LEVEL_ROUNDING / STEP_UNITS)
    return np.asarray(np.clip(levels, 0.0, 1.0) * bound)


def _by_size(starts: Floats, events: Floats, owner: Integers, n_items: int) -> ShapeTable:
    """Shapes grouped by their number of events; `events` are ordered item by item."""
    sizes = np.bincount(owner, minlength=n_items)
    first = np.cumsum(sizes) - sizes
    rows = {}
    for size in np.unique(sizes).tolist():
        items = np.flatnonzero(sizes == size)
        own = events[first[items][:, None] + np.arange(size)].reshape(len(items), -1)
        shapes = np.column_stack([starts[items], own])
        rows[size] = _distinct(shapes, np.ones(len(items), dtype=np.int64))
    return ShapeTable(rows)


def _distinct(shapes: Floats, counts: Integers) -> tuple[Floats, Integers]:
    distinct, place = np.unique(shapes, axis=0, return_inverse=True)
    totals = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(totals, place.reshape(-1), counts)
    return distinct, totals


class ItemShapes(NamedTuple):
    """Step functions of items for one loss, safest first, and how many items have each."""

    scores: Floats
    after: Floats
    start: Floats
    offsets: Integers
    counts: Integers

    @classmethod
    def of(cls, table: ShapeTable, loss: int, n_losses: int) -> ItemShapes:
        """The shapes of one of the losses."""
        scores, after, start, sizes, counts = [], [], [], [], []
        for size in sorted(table.rows):
            shapes, number = table.rows[size]
            events = shapes[:, n_losses:].reshape(len(shapes), size, 1 + n_losses)
            scores.append(events[:, :, 0].reshape(-1))
            after.append(events[:, :, 1 + loss].reshape(-1))
            start.append(shapes[:, loss])
            sizes.append(np.full(len(shapes), size))
            counts.append(number)
        ends = np.cumsum(np.concatenate(sizes))
        return cls(
            np.concatenate(scores),
            np.concatenate(after),
            np.concatenate(start),
            np.concatenate([[0], ends]),
            np.concatenate(counts),
        )

    @property
    def events(self) -> ItemEvents:
        """Where losses may change."""
        return ItemEvents(self.scores, self.offsets)

    def pieces(self, items: Integers, thresholds: Floats, *, larger: bool) -> LossPieces:
        """The losses of some items over some thresholds, safest first."""
        sizes = np.diff(self.offsets)[items]
        first = np.cumsum(sizes + 1) - (sizes + 1)
        owner = np.repeat(np.arange(len(items)), sizes)
        ends = np.cumsum(sizes)
        events = np.repeat(self.offsets[items] - (ends - sizes), sizes) + np.arange(sizes.sum())
        later = np.arange(len(events)) + owner + 1
        begin = np.zeros(len(events) + len(items), dtype=np.int64)
        begin[later] = event_index(self.scores[events], thresholds, larger_is_safer=larger)
        level = np.empty(len(begin))
        level[first], level[later] = self.start[items], self.after[events]
        end = np.append(begin[1:], len(thresholds))
        end[first[1:] - 1] = len(thresholds)
        return LossPieces(begin, end, level, first)

    def losses(
        self, items: Integers | None, thresholds: Floats, *, larger: bool
    ) -> Iterator[Floats]:
        """The losses of some items at some thresholds, in blocks of items."""
        chosen = np.arange(len(self.start)) if items is None else items
        rows = max(1, CELLS_PER_BLOCK // (len(thresholds) + 1))
        for block in range(0, len(chosen), rows):
            part = chosen[block : block + rows]
            pieces = self.pieces(part, thresholds, larger=larger)
            sizes = np.diff(np.append(pieces.first, len(pieces.start)))
            owner = np.repeat(np.arange(len(part)), sizes)
            table = np.empty((len(part), len(thresholds)))
            for column in range(len(thresholds)):
                hit = (pieces.start <= column) & (column < pieces.end)
                table[owner[hit], column] = pieces.level[hit]
            yield table
