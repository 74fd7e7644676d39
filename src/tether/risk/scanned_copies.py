"""Items of claims in parts that are copies, by the rules of `item_copies`, in bounded memory.

All claims of an item are in one part, so whether they occur more than once is counted part by part.
Items under different names are compared by a hash of their scores: of those with the smallest
hashes, all copies are known. Only where some of them are alike, two further passes read the scores
of these items, and how often each of these scores occurs in all claims.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core.counted_rows import CountedRows, Hashes
from tether._core.types import Floats, Integers
from tether.risk.claim_parts import ClaimPart
from tether.risk.item_copies import (
    MIN_REPEATED_ITEMS,
    RepeatCounts,
    copied_in_words,
    distinct_scores,
    no_repeats,
    repeated_in_words,
    repeated_items,
    score_hashes,
    scores_alone,
)

MOST_ALIKE = 1024
"""Of how many different items with copies the scores are read."""
MOST_SCORES = 64
"""How many distinct scores of such an item are looked at, the smallest."""


@dataclass(frozen=True, eq=False)
class CountedCopies:
    """Items whose claims all occur more than once, how many by chance, and equal items."""

    n_items: int
    repeated: int
    counts: RepeatCounts
    rows: int
    first: tuple[Any, ...]
    """The first name of a repeated item, if there is one."""
    alike: CountedRows
    """Hashes of the scores of items with several claims."""

    def merge(self, other: CountedCopies) -> CountedCopies:
        """Those of both."""
        return CountedCopies(
            self.n_items + other.n_items,
            self.repeated + other.repeated,
            self.counts.merge(other.counts),
            self.rows + other.rows,
            _first(self.first + other.first, 1),
            self.alike.merge(other.alike),
        )


@dataclass(frozen=True)
class CountCopies:
    """A job of the first pass."""

    def partial(self, part: ClaimPart) -> CountedCopies:
        """Those of one part."""
        claims = part.claims
        assert claims.items is not None
        values = np.sort(claims.scores)
        repeated, counts = np.zeros(0, dtype=np.int64), no_repeats()
        if (values[1:] == values[:-1]).any():
            repeated, counts = repeated_items(claims)
        return CountedCopies(
            claims.n_items,
            len(repeated),
            counts,
            int(np.diff(claims.offsets)[repeated].sum()),
            tuple(claims.items[repeated[:1]].tolist()),
            CountedRows.of(score_hashes(claims)[1]),
        )


@dataclass(frozen=True, eq=False)
class AlikeItems:
    """For each hash, two names of items that have it, and the distinct scores of one of them."""

    names: dict[int, tuple[Any, ...]]
    scores: dict[int, tuple[Floats, Integers]]

    def merge(self, other: AlikeItems) -> AlikeItems:
        """Those of both; items with one hash have the same scores."""
        names = dict(self.names)
        for each, found in other.names.items():
            names[each] = _first(names.get(each, ()) + found, 2)
        return AlikeItems(names, {**other.scores, **self.scores})


@dataclass(frozen=True, eq=False)
class ReadAlike:
    """The items with some hashes."""

    hashes: Hashes

    def partial(self, part: ClaimPart) -> AlikeItems:
        """Those of one part."""
        own, hashes = score_hashes(part.claims)
        chosen = np.isin(hashes, self.hashes)
        names: dict[int, tuple[Any, ...]] = {}
        scores: dict[int, tuple[Floats, Integers]] = {}
        for index, each in zip(own[chosen].tolist(), hashes[chosen].tolist(), strict=True):
            assert part.claims.items is not None
            names[each] = (*names.get(each, ()), part.claims.items[index].item())[:2]
            if each not in scores:
                _, values, inside = distinct_scores(part.claims.take(np.array([index])))
                scores[each] = values[:MOST_SCORES], inside[:MOST_SCORES]
        return AlikeItems(names, scores)


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """How often each of some scores occurs."""

    counts: Integers

    def merge(self, other: ScoreCounts) -> ScoreCounts:
        """In both."""
        return ScoreCounts(self.counts + other.counts)


@dataclass(frozen=True, eq=False)
class CountScores:
    """How often each of some different scores, in order, occurs."""

    scores: Floats

    def partial(self, part: ClaimPart) -> ScoreCounts:
        """In one part."""
        values = np.sort(part.claims.scores)
        below, through = (np.searchsorted(values, self.scores, side) for side in ("left", "right"))
        return ScoreCounts(through - below)


def _first(names: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The first names, numbers before texts: that both occur is an error, found elsewhere."""
    return tuple(sorted(names, key=lambda name: (isinstance(name, str), name))[:count])


def copies_warning(counted: CountedCopies) -> Generator[Any, Any, str | None]:
    """Say that items are copies; yields the jobs of further passes where they are needed."""
    if counted.counts.enough:
        (first,) = counted.first
        return repeated_in_words(counted.repeated, counted.n_items, counted.rows, first)
    several = counted.alike.times > 1
    hashes = counted.alike.rows[several][:MOST_ALIKE]
    times = counted.alike.times[several][:MOST_ALIKE]
    if len(hashes) < MIN_REPEATED_ITEMS:
        return None
    found: AlikeItems = yield ReadAlike(hashes)
    each = [found.scores[key] for key in hashes.tolist()]
    item = np.repeat(np.arange(len(each)), [len(values) for values, _ in each])
    scores = np.concatenate([values for values, _ in each])
    inside = np.concatenate([inside for _, inside in each])
    values, place = np.unique(scores, return_inverse=True)
    counts: ScoreCounts = yield CountScores(values)
    alone = scores_alone(item, inside * times[item], counts.counts[place], len(each))
    if np.count_nonzero(alone) < MIN_REPEATED_ITEMS:
        return None
    names = min(found.names[key] for key in hashes[alone].tolist())
    sure, possible = int((times[alone] - 1).sum()), int((times - 1).sum())
    return copied_in_words(sure, possible, counted.n_items, names)
