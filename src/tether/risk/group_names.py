"""The names of groups, as a selection has them: texts, whatever the labels are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def group_names(labels: NDArray[Any]) -> NDArray[np.str_]:
    """The name of the group that each label names; bytes are read as UTF-8.

    >>> group_names(np.array([b"en", b"de"])).tolist(), group_names(np.array([7, 12])).tolist()
    (['en', 'de'], ['7', '12'])
    """
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "backslashreplace")
    return labels.astype(np.str_)
