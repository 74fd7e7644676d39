"""A first pass over claims in parts: how many there are, where their scores lie, which items."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Integers
from tether.risk.claim_parts import ClaimPart
from tether.risk.item_names import ItemNames
from tether.risk.score_order import ordered_bits

CELL_BITS = np.uint64(48)
"""A cell of scores shares the sign, the exponent and the first four bits behind it."""
ALL_ITEMS = None
"""The name of the group of all items, where there are no groups."""


@dataclass(frozen=True, eq=False)
class Tally:
    """How many items and claims there are, where their scores lie, and the largest weight.

    `squared_sizes` is the sum of the squares of how many claims each item has.
    """

    n_items: int
    n_claims: int
    squared_sizes: int
    cells: NDArray[np.uint64]
    counts: Integers
    log_weight: float
    ends: tuple[float, float]

    def merge(self, other: Tally) -> Tally:
        """The tally of both."""
        cells, place = np.unique(np.concatenate([self.cells, other.cells]), return_inverse=True)
        counts = np.zeros(len(cells), dtype=np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        return Tally(
            self.n_items + other.n_items,
            self.n_claims + other.n_claims,
            self.squared_sizes + other.squared_sizes,
            cells,
            counts,
            max(self.log_weight, other.log_weight),
            (min(self.ends[0], other.ends[0]), max(self.ends[1], other.ends[1])),
        )


@dataclass(frozen=True, eq=False)
class SurveyResult:
    """One tally per group, and what is known of the names of the items."""

    tallies: dict[Any, Tally]
    names: ItemNames

    def merge(self, other: SurveyResult) -> SurveyResult:
        """The survey of both."""
        tallies = dict(self.tallies)
        for name, tally in other.tallies.items():
            tallies[name] = tallies[name].merge(tally) if name in tallies else tally
        return SurveyResult(tallies, self.names.merge(other.names))


@dataclass(frozen=True)
class Survey:
    """What must be known before scores are put in bins."""

    def partial(self, part: ClaimPart) -> SurveyResult:
        """The survey of one part."""
        assert part.claims.items is not None
        groups: list[Any] = [ALL_ITEMS]
        if part.groups is not None:
            groups = np.unique(part.groups).tolist()
        tallies = {}
        for name in groups:
            inside = part.among(None if name is ALL_ITEMS else [name])
            assert inside is not None
            tallies[name] = _tally(inside)
        return SurveyResult(tallies, ItemNames.of(part.claims.items))


def joint_tally(result: SurveyResult, groups: Collection[Any] | None) -> Tally:
    """The tally of some groups, or of all items."""
    chosen = [t for name, t in result.tallies.items() if groups is None or name in groups]
    total = chosen[0]
    for tally in chosen[1:]:
        total = total.merge(tally)
    return total


def _tally(part: ClaimPart) -> Tally:
    bits = ordered_bits(part.claims.scores)
    cells, counts = np.unique(bits >> CELL_BITS, return_counts=True)
    largest = -np.inf if part.log_weights is None else float(part.log_weights.max())
    squares = int(np.square(np.diff(part.claims.offsets)).sum())
    ends = float(part.claims.scores.min()), float(part.claims.scores.max())
    return Tally(part.claims.n_items, len(bits), squares, cells, counts, largest, ends)
