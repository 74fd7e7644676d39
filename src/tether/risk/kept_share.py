"""How much a threshold keeps of the calibration data: claims, and items with nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tether._core.types import Booleans, Floats, Integers

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

    Examples
    --------
    >>> KeptShare("claims", total=200, kept=150, items=40, emptied=3).share
    0.75
    """

    unit: str
    total: int
    kept: int
    items: int
    emptied: int

    @property
    def share(self) -> float:
        """The share that is kept; NaN if there was nothing to keep."""
        return self.kept / self.total if self.total else float("nan")

    def __str__(self) -> str:
        text = f"{self.kept:,} of {self.total:,} calibration {self.unit}"
        if self.total:
            text += f" ({100 * self.share:.3g} %)"
        if self.unit == "claims":
            text += f"; nothing is left of {self.emptied:,} of {self.items:,} items"
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
        starts = self.offsets[:-1][np.diff(self.offsets) > 0]
        highest = np.maximum.reduceat(self.scores, starts) if len(starts) else self.scores
        return KeptShare(
            unit=self.unit,
            total=len(self.scores),
            kept=int(self.read(np.array([index]))[0]),
            items=len(starts),
            emptied=int((highest < threshold).sum()),
        )

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
    kept: Integers
    emptied: Integers

    def at(self, index: int, threshold: float) -> KeptShare:
        """Count at one candidate."""
        kept, emptied = int(self.kept[index]), int(self.emptied[index])
        return KeptShare("claims", self.total, kept, self.items, emptied)

    def shares(self, picked: Integers) -> Floats:
        """The share that each of these candidates keeps."""
        return np.asarray(self.kept[picked] / self.total)


def counts_from_order(run_ends: Booleans, *, larger_is_safer: bool) -> CountReader:
    """Where every score is a candidate: what comes before the end of each run of equal scores."""

    def read(picked: Integers) -> Integers:
        passed = np.append(0, np.flatnonzero(run_ends) + 1)[picked]
        return passed if larger_is_safer else len(run_ends) - passed

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
    )
