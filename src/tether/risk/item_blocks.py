"""Blocks of whole items: the rows of one part, cut so that little memory is needed for each.

A part is in memory as a whole, because the rows of an item may be anywhere in it. What is computed
from its rows takes several times as much, and is therefore computed block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.kernels import Columns
from tether._core.types import Integers

CLAIMS_PER_ITEM_BLOCK = 1 << 16
"""How many claims a block of items has, and more until its last item is complete."""


def item_blocks(columns: Columns, items: str) -> Iterator[Columns]:
    """The rows of blocks of items, in the order of their names, and of each item as they come.

    Columns that are not plain arrays of the same length, with names of items, stay together: what
    is wrong with them is found where they are checked.
    """
    names = columns[items]
    plain = all(type(each) is np.ndarray and each.ndim == 1 for each in columns.values())
    if (
        not plain
        or names.dtype.kind not in "iubUS"
        or len({len(each) for each in columns.values()}) > 1
        or len(names) <= CLAIMS_PER_ITEM_BLOCK
    ):
        yield columns
        return
    order = None if (names[1:] >= names[:-1]).all() else np.argsort(names, kind="stable")
    for rows in _cuts(names, order):
        chosen = rows if order is None else order[rows]
        yield {name: column[chosen] for name, column in columns.items()}


def _cuts(names: NDArray[Any], order: Integers | None) -> Iterator[slice]:
    """Slices of the rows in order, each of which ends where an item does."""
    start = 0
    while start < len(names):
        last = min(start + CLAIMS_PER_ITEM_BLOCK, len(names)) - 1
        name = names[last if order is None else order[last]]
        stop = int(np.searchsorted(names, name, side="right", sorter=order))
        yield slice(start, stop)
        start = stop
