"""Tables whose columns carry the names of actions, as a frame's do.

numpy forgets the names, and a table whose columns are in another order than the actions would be
read as another policy. Here the columns are put in the order of the actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.shown import few


def labels_of(table: Any) -> NDArray[Any] | None:
    """The names of a frame's columns, or of the values of a pandas Series; None without names.

    Names that only count the columns, as pandas and polars give them, stand for no names.
    """
    listed = _listed(table)
    if listed is None or _only_count(listed):
        return None
    labels = np.empty(len(listed), dtype=object)
    labels[:] = listed  # one object each, also where a label is a tuple
    return labels


def by_action(name: str, table: Any, actions: Any) -> Any:
    """A table with its columns in the order of the actions; one without names as it is.

    Names that only count the columns may still be those of the actions: a table with the columns
    0, 1 beside the actions 1, 0 has two readings, and is refused.
    """
    listed = None if actions is None else _listed(table)
    if listed is None:
        return table
    wanted, found = ([str(each) for each in names] for names in (np.asarray(actions), listed))
    are_actions = sorted(wanted) == sorted(found) and len(set(found)) == len(found)
    if _only_count(listed):
        if not are_actions or wanted == found:
            return table
        raise ValueError(
            f"{name} has the columns {few(np.asarray(listed))}, and the actions are "
            f"{few(np.asarray(actions))}: the columns may be named by their actions, or counted. "
            f"Put them in the order of the actions, and return .to_numpy()"
        )
    if not are_actions:
        raise ValueError(
            f"{name} has the columns {few(labels_of(table))}, and the actions are "
            f"{few(np.asarray(actions))}: name each column by its action, or return .to_numpy() if "
            f"the columns are in the order of the actions"
        )
    return np.asarray(table)[..., [found.index(action) for action in wanted]]


def _listed(table: Any) -> list[Any] | None:
    """The names of the columns or values, whatever they are; None where there are none."""
    named = getattr(table, "column_names", None)  # Arrow
    if named is None and hasattr(table, "columns"):
        named = table.columns
    elif named is None and hasattr(table, "iloc") and len(table.shape) == 1:
        named = table.index
    return None if named is None or callable(named) else list(named)


def _only_count(listed: list[Any]) -> bool:
    """Whether names count the columns: 0, 1, … as integers, not as booleans or other numbers."""
    if all(isinstance(each, int | np.integer) and not isinstance(each, bool) for each in listed):
        return listed == list(range(len(listed)))
    return listed == [f"column_{count}" for count in range(len(listed))]
