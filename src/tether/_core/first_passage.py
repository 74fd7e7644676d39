"""First passages: where a sequence first exceeds a level, for many levels at once."""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats, Integers


def first_past(values: Floats, level: Floats, start: Integers) -> Integers:
    """For each level, the first index from `start` on whose value exceeds it; the length if none.

    Uses a tree of maxima over blocks of doubling size: a query climbs until a block holds a value
    above its level, then descends to the first such value; all queries run side by side.

    >>> first_past(np.array([1.0, 5.0, 2.0, 7.0]), np.array([4.0, 6.0, 9.0]), np.array([2, 0, 0]))
    array([3, 3, 4])
    """
    if not start.any():  # then it is the first running maximum that does
        return np.searchsorted(np.maximum.accumulate(values), level, side="right")
    depth = max(len(values) - 1, 0).bit_length()
    base = np.full(1 << depth, -np.inf)
    base[: len(values)] = values
    tree = [base]
    for _ in range(depth):
        tree.append(tree[-1].reshape(-1, 2).max(axis=1))
    node = start.astype(np.int64)
    height = np.full(len(level), -1)
    for level_up, maxima in enumerate(tree):
        # The second block of a pair is examined here; the first one together with it, a level up.
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
    return np.where(height < 0, len(values), node)
