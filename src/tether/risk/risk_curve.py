"""The risk at every candidate threshold, safest first, and where along it to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.ties import within_limit
from tether._core.types import Floats
from tether.risk.claim_steps import Pieces
from tether.risk.claims import BLOCK, Claims


class _Unsaid(float):
    """A default that can be told from the same number given."""


BOUND = _Unsaid(1.0)
NAMED = 5  # how many items at fault are named
CELLS = 1 << 20  # cells of items × thresholds handled at once

# Losses, items × a slice of the candidates, in blocks of items: of all items, or of those named.
Dense = Callable[[slice, Any], Iterator[Floats]]


@dataclass(frozen=True, eq=False)
class Sweep:
    """Sums of losses at every candidate threshold, from the safest to the boldest.

    `sums` holds Σ w·loss, `envelope` the same for losses made monotone (when asked for), `total`
    the sum of the weights that they are divided by (one number, or one a threshold for a rate
    among the selected). Give a sweep to any of the four methods in place of the losses: the sort
    is then paid for once.
    """

    thresholds: Floats
    sums: Floats
    envelope: Floats | None
    total: float | Floats
    test_weight: float
    items: int
    effective_sample_size: float
    bound: float
    loss: str
    safer: str
    faults: int
    faulty: tuple[int, ...]
    exact: bool  # every distinct score is a candidate, rather than thresholds chosen beforehand
    weighted: bool
    dense: Dense | None = None
    claims: Claims | None = None
    pieces: Callable[[slice, Any], Pieces] | None = None  # of the losses of claims, item by item

    def __repr__(self) -> str:
        return (
            f"Sweep(loss={self.loss!r}, items={self.items}, candidates={len(self.thresholds)}, "
            f"monotone={self.monotone})"
        )

    @property
    def share(self) -> bool:
        """Whether this is a rate among the selected, whose number depends on the threshold."""
        return not isinstance(self.total, float)

    @property
    def monotone(self) -> bool:
        """Whether no item's loss ever falls as the threshold gets bolder; never so for a share."""
        return self.faults == 0 and not self.share

    def check_walk(self) -> None:
        """Refuse a walk that begins at +inf: nothing is selected there, and no share is shown."""
        if self.share and self.exact:
            raise ValueError(
                f"loss = {self.loss!r} is a share of the selected, which nothing can show where "
                "nothing is selected, and this walk begins there: give thresholds whose largest "
                "selects enough items, or loss = 'false_positive' or 'false_negative'"
            )

    def risks(self, *, conservative: bool = True, where: Any = slice(None)) -> Floats:
        """Risk at the candidates: with the item to come counted at the bound, or without it."""
        extra = self.test_weight if conservative else 0.0
        total = self.total if isinstance(self.total, float) else self.total[where]
        with np.errstate(invalid="ignore"):  # a rate among none selected is not a number
            return np.asarray((self.sums[where] + extra * self.bound) / (total + extra))


def given_thresholds(thresholds: Any, safer: str) -> Floats:
    """Thresholds chosen beforehand: finite or +inf, strictly rising; returned safest first."""
    array = validate.floats("thresholds", thresholds)
    if np.isnan(array).any():
        validate.reject("thresholds", array, np.isnan(array), "a number")
    if (np.diff(array) <= 0).any():
        i = int(np.flatnonzero(np.diff(array) <= 0)[0])
        raise ValueError(
            f"thresholds must rise strictly, got thresholds[{i}] = {array[i]} before "
            f"thresholds[{i + 1}] = {array[i + 1]}"
        )
    return array[::-1] if safer == "larger" else array


def passes(sweep: Sweep, sums: Floats, alpha: float, where: slice) -> np.ndarray:
    """Whether the conservative risk is at most alpha, compared as sums, at a stretch of a sweep."""
    total = sweep.total if isinstance(sweep.total, float) else sweep.total[where]
    limit = alpha * (total + sweep.test_weight)
    return np.asarray(within_limit(sums[where] + sweep.test_weight * sweep.bound, limit))


def before_first_violation(sweep: Sweep, sums: Floats, alpha: float) -> int:
    """The boldest candidate such that it and all safer ones pass; −1 where the safest fails."""
    for first in range(0, len(sums), BLOCK):
        passed = passes(sweep, sums, alpha, slice(first, first + BLOCK))
        if not passed.all():
            return first + int(np.argmin(passed)) - 1
    return len(sums) - 1


def boldest_passing(sweep: Sweep, sums: Floats, alpha: float) -> int:
    """The boldest candidate that passes, whatever safer ones do; −1 where none does."""
    for stop in range(len(sums), 0, -BLOCK):
        start = max(0, stop - BLOCK)
        passed = passes(sweep, sums, alpha, slice(start, stop))
        if passed.any():
            return stop - 1 - int(np.argmax(passed[::-1]))
    return -1
