"""Packing: which rows go through the model together.

A batch is as wide as its widest row, so rows of like length go together, and a batch holds as many
as fit a number of tokens. Rows that continue the same prompt stay side by side: the prompt is then
read once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

NEAR = 16
"""Prompts whose lengths differ by less than this are taken as of like length."""


def packed(
    group: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64], most: int
) -> Iterator[NDArray[np.int64]]:
    """Positions of rows, batch by batch, at most `most` tokens in each with its filling.

    Row i continues the prompt `group[i]`, of `before[i]` tokens, by `after[i]` more.
    """
    repeats = len(group) / len(np.unique(group))
    keys = (after, group) if repeats >= 2 else (group, after)
    order = np.lexsort((*keys, before // NEAR))
    start, widest = 0, np.zeros(2, dtype=np.int64)
    for place, row in enumerate(order):
        wider = np.maximum(widest, (before[row], after[row]))
        if place > start and (place + 1 - start) * int(wider.sum()) > most:
            yield order[start:place]
            start, wider = place, np.array([before[row], after[row]])
        widest = wider
    yield order[start:]
