"""Ranks among all scores so far, one score after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats

Counts = NDArray[np.int64]
BLOCK = 256
_BEFORE = np.tri(BLOCK, k=-1, dtype=np.bool_)


class Ranks:
    """A bag of scores that counts how many are above a new one, or equal to it.

    Kept as a few sorted arrays, each more than twice as long as the next: a new one is merged with
    its neighbours while it is too long for that. A score is moved O(log n) times in all.
    """

    def __init__(self, scores: Floats) -> None:
        self._sorted = [np.sort(scores)]

    def __len__(self) -> int:
        return sum(map(len, self._sorted))

    def push(self, scores: Floats) -> tuple[Counts, Counts]:
        """Add scores in order; for each, how many before it were above it and how many equal."""
        blocks = [scores[begin : begin + BLOCK] for begin in range(0, len(scores), BLOCK)]
        counts = [self._push_block(block) for block in blocks]
        above, equal = (np.concatenate(each) for each in zip(*counts, strict=True))
        return above, equal

    def scores(self) -> Floats:
        """All scores, sorted."""
        return np.sort(np.concatenate(self._sorted))

    def _push_block(self, block: Floats) -> tuple[Counts, Counts]:
        # Within the block: row i against the columns before it, as places, which fit in a byte.
        place = np.unique(block, return_inverse=True)[1].astype(np.uint8)
        before = _BEFORE[: len(block), : len(block)]
        above = np.count_nonzero((place[None, :] > place[:, None]) & before, axis=1)
        equal = np.count_nonzero((place[None, :] == place[:, None]) & before, axis=1)
        for scores in self._sorted:
            left = np.searchsorted(scores, block, side="left")
            right = np.searchsorted(scores, block, side="right")
            above += len(scores) - right
            equal += right - left
        self._add(np.sort(block))
        return above, equal

    def _add(self, scores: Floats) -> None:
        while self._sorted and len(self._sorted[-1]) <= 2 * len(scores):
            # Both halves are sorted: a stable sort merges them in one pass.
            scores = np.sort(np.concatenate([self._sorted.pop(), scores]), kind="stable")
        self._sorted.append(scores)
