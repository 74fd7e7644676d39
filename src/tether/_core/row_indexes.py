"""Columns that are taken side by side must have their rows in the same order.

pandas aligns columns by their index, and tether takes them by position. Columns whose indexes
differ would make a table of rows that never were, so they are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np


def check_row_indexes(columns: Mapping[str, Any]) -> None:
    """Refuse columns, by name, of which two carry a pandas index and the indexes differ.

    An index that only counts the rows stands for no index, unless another one has the same numbers
    in another order. Lengths are checked elsewhere.
    """
    indexed = [(name, index) for name, index in _indexes(columns) if index is not None]
    for (first_name, first), (name, index) in combinations(indexed, 2):
        if _differ(first, index):
            raise ValueError(_differ_in_words(first_name, first, name, index))


def _indexes(columns: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The index of each column, or None; a mapping of columns counts as several."""
    found = []
    for name, values in columns.items():
        if isinstance(values, Mapping):
            found += [(f"{name}[{key!r}]", _index_of(each)) for key, each in values.items()]
        else:
            found.append((name, _index_of(values)))
    return found


def _index_of(values: Any) -> Any:
    """The index of a pandas object; `index` is a method of lists and strings."""
    index = getattr(values, "index", None) if hasattr(values, "iloc") else None
    return index if hasattr(index, "equals") else None


def _counts_rows(index: Any) -> bool:
    """Whether an index is the one that pandas gives to rows without labels."""
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def _differ(first: Any, second: Any) -> bool:
    """Whether the same positions of two indexes of equal length are different rows."""
    if first is second or len(first) != len(second) or first.equals(second):
        return False
    one, other = np.asarray(first), np.asarray(second)
    if np.array_equal(one, other):  # of another type, such as strings and objects
        return False
    if _counts_rows(first) or _counts_rows(second):
        labels = other if _counts_rows(first) else one
        return labels.dtype.kind in "iu" and np.array_equal(np.sort(labels), np.arange(len(labels)))
    return True


def _differ_in_words(first_name: str, first: Any, name: str, index: Any) -> str:
    one, other = np.asarray(first), np.asarray(index)
    row = next(place for place in range(len(one)) if one[place] != other[place])
    return (
        f"{name} and {first_name} have different row indexes (row {row}: {other[row]!r} and "
        f"{one[row]!r}), so their rows may not belong together: bring them into one order, such as "
        f"{name}.loc[{first_name}.index], or pass .to_numpy() if the order is right"
    )
