"""Values that are equal, brought together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Integers


def group_equal(values: NDArray[Any]) -> tuple[Integers, Integers, Integers]:
    """The order that brings equal values together, where each begins, and how often it occurs.

    Equal values stay in order.

    >>> [part.tolist() for part in group_equal(np.array([7, 5, 7]))]
    [[1, 0, 2], [0, 1], [1, 2]]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_first = np.ones(len(ordered), dtype=np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(is_first)
    return order, starts, np.diff(np.append(starts, len(ordered)))
