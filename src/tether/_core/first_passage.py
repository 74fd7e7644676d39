"""First passages: where a sequence first exceeds a level, for many levels at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats


def first_past(values: Floats, level: Floats, start: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each level, the first index from `start` on whose value exceeds it; the length if none.

    A tree of maxima over blocks of doubling size: each query climbs until a block holds a value
    above its level and then descends to the first one, all queries side by side.

    >>> first_past(np.array([1.0, 5.0, 2.0, 7.0]), np.array([4.0, 6.0, 9.0]), np.array([2, 0, 0]))
    array([3, 3, 4])
    """
    depth = max(len(values) - 1, 0).bit_length()
    base = np.full(1 << depth, -np.inf)
    base[: len(values)] = values
    tree = [base]
    for _ in range(depth):
        tree.append(tree[-1].reshape(-1, 2).max(axis=1))
    node = start.astype(np.int64)
    height = np.full(len(level), -1)
    for level_up, maxima in enumerate(tree):
        # A block that ends its pair is looked at here; one that begins it, with its pair above.
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
