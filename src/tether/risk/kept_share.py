"""How much a threshold keeps of the calibration data: claims, and items with nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tether._core.counted import counted
from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_columns import CLAIMS_PER_BLOCK

ITEMS_PER_BLOCK = 1 << 14
"""How many items are looked at at once."""

CountReader: TypeAlias = Callable[[Integers], Integers]
"""How many are kept at some of the candidates, by their indices."""


@dataclass(frozen=True)
class KeptShare:
    """What the threshold keeps of the calibration data, as plain counts.

    Parameters
    ----------
    unit : str
        What is counted: "claims", or "items" where each item has one score.
    total : int
        How many there are.
    kept : int
        How many of them score at least the threshold.
    items : int
        How many items have at least one of them.
    emptied : int
        How many of these items have nothing left.
    squared_sizes : int
        The sum of the squares of how many of them each item has; 1 for each item where each has one
        score. It tells how unequal items are.
    lowest, highest : float, optional
        The lowest and the highest score among them, kept or not; None if there is none.

    Examples
    --------
    >>> KeptShare("claims", total=200, kept=150, items=40, emptied=3, squared_sizes=1000).share
    0.75
    """

    unit: str
    total: int
    kept: int
    items: int
    emptied: int
    squared_sizes: int
    lowest: float | None = None
    highest: float | None = None

    @property
    def share(self) -> float:
        """The share that is kept; NaN if there was nothing to keep."""
        return self.kept / self.total if self.total else float("nan")

    def __str__(self) -> str:
        unit = self.unit.removesuffix("s") if self.total == 1 else self.unit
        text = f"{self.kept:,} of {self.total:,} calibration {unit}"
        if self.total:
            text += f" ({100 * self.share:.3g} %)"
        if self.unit == "claims":
            text += f"; nothing is left of {self.emptied:,} of {counted(self.items, 'item')}"
        return text


@dataclass(frozen=True, eq=False)
class KeptCounts:
    """How many scores each candidate keeps, and how many items lose all of theirs."""

    unit: str
    scores: Floats
    offsets: Integers
    read: CountReader

    def at(self, index: int, threshold: float) -> KeptShare:
        """Count at one candidate, which keeps what scores at least the threshold."""
        items = emptied = squares = 0
        for first in range(0, len(self.offsets) - 1, ITEMS_PER_BLOCK):  # arrays stay short
            offsets = self.offsets[first : first + ITEMS_PER_BLOCK + 1]
            starts = offsets[:-1][offsets[1:] > offsets[:-1]]
            squares += int(np.square(np.diff(offsets)).sum())
            if len(starts):
                scores = self.scores[: offsets[-1]]
                highest = np.maximum.reduceat(scores[starts[0] :], starts - starts[0])
                items += len(starts)
                emptied += int((highest < threshold).sum())
        kept = int(self.read(np.array([index]))[0])
        ends = (float(self.scores.min()), float(self.scores.max())) if items else (None, None)
        return KeptShare(self.unit, len(self.scores), kept, items, emptied, squares, *ends)

    def shares(self, picked: Integers) -> Floats:
        """The share that each of these candidates keeps; none if there is nothing to keep."""
        if not len(self.scores):
            return np.empty(0)
        return np.asarray(self.read(picked) / len(self.scores))


@dataclass(frozen=True, eq=False)
class CountsInParts:
    """The same of claims in parts, counted beforehand: one number per candidate."""

    total: int
    items: int
    squared_sizes: int
    kept: Integers
    emptied: Integers
    ends: tuple[float, float]

    def at(self, index: int, threshold: float) -> KeptShare:
        """Count at one candidate."""
        kept, emptied = int(self.kept[index]), int(self.emptied[index])
        return KeptShare(
            "claims", self.total, kept, self.items, emptied, self.squared_sizes, *self.ends
        )

    def shares(self, picked: Integers) -> Floats:
        """The share that each of these candidates keeps."""
        return np.asarray(self.kept[picked] / self.total)


def counts_from_order(run_ends: Booleans, *, larger_is_safer: bool) -> CountReader:
    """Where every score is a candidate: what comes before the end of each run of equal scores."""
    rows, bits = len(run_ends), np.packbits(run_ends)

    def marked(first: int) -> Booleans:
        """One block of `run_ends`, which is kept as bits."""
        block = bits[first // 8 : (first + CLAIMS_PER_BLOCK) // 8]
        return np.unpackbits(block, count=min(CLAIMS_PER_BLOCK, rows - first)).astype(np.bool_)

    def read(picked: Integers) -> Integers:
        # Candidate number k stands behind the k-th run. Its end is looked up in its own block, so
        # that no array is as long as the scores; nothing comes before candidate 0.
        starts = range(0, rows, CLAIMS_PER_BLOCK)
        ends = [int(np.count_nonzero(marked(first))) for first in starts]
        before = np.concatenate([[0], np.cumsum(ends, dtype=np.int64)])
        own = np.searchsorted(before, picked) - 1
        passed = np.zeros(len(picked), dtype=np.int64)
        for block in np.unique(own[picked > 0]).tolist():
            inside = (own == block) & (picked > 0)
            place = np.flatnonzero(marked(starts[block]))[picked[inside] - before[block] - 1]
            passed[inside] = starts[block] + place + 1
        return passed if larger_is_safer else rows - passed

    return read


def counts_from_events(
    events: Integers, n_thresholds: int, *, larger_is_safer: bool
) -> CountReader:
    """At thresholds chosen beforehand, by the index of each score's event."""
    passed = np.cumsum(np.bincount(events, minlength=n_thresholds + 1)[:n_thresholds])

    def read(picked: Integers) -> Integers:
        return np.asarray(passed[picked] if larger_is_safer else len(events) - passed[picked])

    return read


def together(parts: Iterable[KeptShare | None]) -> KeptShare | None:
    """What several groups keep together; None where it is not known of one of them."""
    listed = list(parts)
    known = [part for part in listed if part is not None]
    if len(known) < len(listed) or len({part.unit for part in known}) != 1:
        return None
    return KeptShare(
        unit=known[0].unit,
        total=sum(part.total for part in known),
        kept=sum(part.kept for part in known),
        items=sum(part.items for part in known),
        emptied=sum(part.emptied for part in known),
        squared_sizes=sum(part.squared_sizes for part in known),
        lowest=min((part.lowest for part in known if part.lowest is not None), default=None),
        highest=max((part.highest for part in known if part.highest is not None), default=None),
    )
