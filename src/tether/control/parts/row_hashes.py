"""Hashes of rows, which do not depend on the rows around them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats

Hashes = NDArray[np.uint64]
FIRST_SEED, SECOND_SEED = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03


def row_hashes(columns: Sequence[Floats | None], seed: int) -> Hashes:
    """One hash per row of all columns that there are."""

    def add(state: Hashes, column: Floats) -> Hashes:
        return _mixed(state ^ (column + 0.0).view(np.uint64))

    with np.errstate(over="ignore"):
        given = [column for column in columns if column is not None]
        rows = len(given[0])
        flat = [
            np.ascontiguousarray(part)
            for column in given
            for part in ([column] if column.ndim == 1 else column.T)
        ]
        return reduce(add, flat, np.full(rows, seed, dtype=np.uint64))


def _mixed(values: Hashes) -> Hashes:
    """A bijection of 64-bit integers that spreads every bit (the finalizer of SplitMix64)."""
    values = values + np.uint64(FIRST_SEED)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
