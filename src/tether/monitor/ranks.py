"""Ranks of scores among all scores so far, updated as scores arrive."""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats, Integers

SCORES_PER_BLOCK = 256
"""Scores ranked together; at most 256, so that ranks within a block fit in one byte."""
_EARLIER_IN_BLOCK = np.tri(SCORES_PER_BLOCK, k=-1, dtype=np.bool_)


class Ranks:
    """A multiset of scores that counts how many are above a new score, or equal to it.

    Kept as a few sorted arrays, each more than twice as long as the next; a new array is merged
    with its neighbours while it is too long for that. A score is moved O(log n) times in all.
    """

    def __init__(self, scores: Floats) -> None:
        self._sorted = [np.sort(scores)]

    def __len__(self) -> int:
        return sum(map(len, self._sorted))

    def push(self, scores: Floats) -> tuple[Integers, Integers]:
        """Add scores in order; for each, how many earlier ones are above it, and how many equal."""
        starts = range(0, len(scores), SCORES_PER_BLOCK)
        counts = [self._push_block(scores[start : start + SCORES_PER_BLOCK]) for start in starts]
        above, equal = (np.concatenate(blocks) for blocks in zip(*counts, strict=True))
        return above, equal

    def scores(self) -> Floats:
        """All scores, sorted."""
        return np.sort(np.concatenate(self._sorted))

    def _push_block(self, block: Floats) -> tuple[Integers, Integers]:
        # Within the block, compare row i with the columns before it, by ranks that fit in a byte.
        rank = np.unique(block, return_inverse=True)[1].astype(np.uint8)
        earlier = _EARLIER_IN_BLOCK[: len(block), : len(block)]
        above = np.count_nonzero((rank[None, :] > rank[:, None]) & earlier, axis=1)
        equal = np.count_nonzero((rank[None, :] == rank[:, None]) & earlier, axis=1)
        for scores in self._sorted:
            left = np.searchsorted(scores, block, side="left")
            right = np.searchsorted(scores, block, side="right")
            above += len(scores) - right
            equal += right - left
        self._merge(np.sort(block))
        return above, equal

    def _merge(self, scores: Floats) -> None:
        while self._sorted and len(self._sorted[-1]) <= 2 * len(scores):
            # Both parts are sorted: a stable sort merges them in one pass.
            scores = np.sort(np.concatenate([self._sorted.pop(), scores]), kind="stable")
        self._sorted.append(scores)
