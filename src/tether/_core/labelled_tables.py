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
    named = getattr(table, "column_names", None)  # Arrow
    if named is None and hasattr(table, "columns"):
        named = table.columns
    elif named is None and hasattr(table, "iloc") and len(table.shape) == 1:
        named = table.index
    if named is None or callable(named):
        return None
    listed = list(named)
    labels = np.empty(len(listed), dtype=object)
    labels[:] = listed  # one object each, also where a label is a tuple
    if listed in (list(range(len(listed))), [f"column_{count}" for count in range(len(listed))]):
        return None
    return labels


def by_action(name: str, table: Any, actions: Any) -> Any:
    """A table with its columns in the order of the actions; one without names as it is."""
    labels = None if actions is None else labels_of(table)
    if labels is None:
        return table
    wanted, found = ([str(each) for each in names] for names in (np.asarray(actions), labels))
    if sorted(wanted) != sorted(found) or len(set(found)) != len(found):
        raise ValueError(
            f"{name} has the columns {few(labels)}, and the actions are "
            f"{few(np.asarray(actions))}: name each column by its action, or return .to_numpy() if "
            f"the columns are in the order of the actions"
        )
    return np.asarray(table)[..., [found.index(action) for action in wanted]]
