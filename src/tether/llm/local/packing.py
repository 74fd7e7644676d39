"""Packing: which rows go through the model together.

A batch is as wide as its widest row, so rows of like length go together, and a batch holds as many
as fit a number of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.int64]

NEAR = 16
"""Prompts whose lengths differ by less than this are taken as of like length."""
FEW = 16
"""A batch of fewer rows is not cut to save filling: it would only be slower."""
WASTE = 1.2
"""How many times their tokens the rows of a batch may take up, filling included."""


def packed(before: Lengths, after: Lengths, most: int) -> Iterator[NDArray[np.int64]]:
    """Positions of rows, batch by batch: row i adds `after[i]` tokens to the `before[i]` it has.

    A batch has at most `most` tokens, filling included, unless one row alone has more.
    """
    order = np.lexsort((after, before // NEAR))
    start, widest, held = 0, (0, 0), 0
    for place, row in enumerate(order):
        own = int(before[row]), int(after[row])
        wider = max(widest[0], own[0]), max(widest[1], own[1])
        rows, total = place + 1 - start, held + sum(own)
        taken = rows * sum(wider)
        if place > start and (taken > most or (rows > FEW and taken > WASTE * total)):
            yield order[start:place]
            start, wider, total = place, own, sum(own)
        widest, held = wider, total
    if len(order):
        yield order[start:]


def chunks(sizes: Lengths, most: int) -> Iterator[NDArray[np.int64]]:
    """Positions of prompts that are read together, of like length, at most `most` tokens."""
    return packed(np.zeros_like(sizes), sizes, most)
