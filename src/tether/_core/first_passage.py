"""First passages: where a sequence first exceeds a level, for many levels at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tether._core.types import Floats, Integers


def first_past(values: Floats, level: Floats, start: Integers) -> Integers:
    """For each level, the first index from `start` on whose value exceeds it; the length if none.

    >>> first_past(np.array([1.0, 5.0, 2.0, 7.0]), np.array([4.0, 6.0, 9.0]), np.array([2, 0, 0]))
    array([3, 3, 4])
    """
    return FirstPassages(values).past(level, start)


class FirstPassages:
    """The same for many queries of one sequence; after `prepare`, also from several threads.

    Uses a tree of maxima over blocks of doubling size: a query climbs until a block holds a value
    above its level, then descends to the first such value; all queries run side by side.
    """

    def __init__(self, values: Floats) -> None:
        self.values = values
        self._depth = max(len(values) - 1, 0).bit_length()

    def past(self, level: Floats, start: Integers | None = None) -> Integers:
        """The first index from `start` on, or from the first on, whose value exceeds each level."""
        # From the first on, it is the first running maximum that does.
        found: Integers = np.searchsorted(self._running_maximum, level, side="right")
        if start is not None and len(later := np.flatnonzero(start)):
            found[later] = self._climb(level[later], start[later])
        return found

    def _climb(self, level: Floats, start: Integers) -> Integers:
        """The same through the tree, from any start on."""
        tree, depth = self._tree, self._depth
        node = start.astype(np.int64)
        height = np.full(len(level), -1)
        for level_up, maxima in enumerate(tree):
            # The second block of a pair is examined here; the first one together with it, a level
            # up.
            odd = (height < 0) & (node < len(maxima)) & ((node & 1 == 1) | (level_up == depth))
            hit = odd.copy()
            hit[odd] = maxima[node[odd]] > level[odd]
            height[hit] = level_up
            waiting = height < 0
            node[waiting] = (node[waiting] + 1) >> 1
        for level_up in range(depth, 0, -1):
            down = height == level_up
            left = node[down] * 2
            node[down] = left + (tree[level_up - 1][left] <= level[down])
            height[down] -= 1
        return np.where(height < 0, len(self.values), node)

    def prepare(self) -> None:
        """Compute now what queries share, so that several threads only read it."""
        self._running_maximum, self._tree  # noqa: B018

    @cached_property
    def _running_maximum(self) -> Floats:
        return np.maximum.accumulate(self.values)

    @cached_property
    def _tree(self) -> list[Floats]:
        base = np.full(1 << self._depth, -np.inf)
        base[: len(self.values)] = self.values
        tree = [base]
        for _ in range(self._depth):
            tree.append(tree[-1].reshape(-1, 2).max(axis=1))
        return tree
