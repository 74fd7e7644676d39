"""The names of groups, as a selection has them: texts, whatever the labels are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_LISTED_GROUPS = 12
"""How many groups are named in one line."""


def listed_groups(names: Sequence[str]) -> str:
    """The first names, and how many more there are.

    >>> listed_groups(["a", "b"]), listed_groups(list("abcdefghijklmn"))[-15:]
    ('a, b', 'k, l and 2 more')
    """
    more = len(names) - MAX_LISTED_GROUPS
    listed = ", ".join(names[:MAX_LISTED_GROUPS])
    return listed if more <= 0 else f"{listed} and {more:,} more"


def group_names(labels: NDArray[Any]) -> NDArray[np.str_]:
    """The name of the group that each label names; bytes are read as UTF-8.

    >>> group_names(np.array([b"en", b"de"])).tolist(), group_names(np.array([7, 12])).tolist()
    (['en', 'de'], ['7', '12'])
    """
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "backslashreplace")
    return labels.astype(np.str_)
