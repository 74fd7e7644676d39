"""Labels of rows to calibrate on: as many as rows, and of the classes that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.plain_arrays import plain_column
from tether._core.shown import few


def one_label_per_row(y: Any, rows: int) -> NDArray[Any]:
    """The labels as a plain column with one value for each row."""
    labels = plain_column("y", y)
    if labels.ndim != 1:
        raise ValueError(f"y must have 1 dimension, got shape {labels.shape}")
    validate.same_length("y", labels, "X", rows)
    return labels


def known_labels(y: Any, rows: int, classes: NDArray[Any]) -> NDArray[Any]:
    """The labels of all rows; one that is not a known class is an error, and never a class."""
    labels = one_label_per_row(y, rows)
    unknown = np.ones(rows, dtype=bool)
    for each in classes:
        unknown &= np.broadcast_to(labels != each, unknown.shape)
    if unknown.any():
        first = int(np.argmax(unknown))
        raise ValueError(
            f"y[{first}] is {labels[first].item()!r} ({int(unknown.sum()):,} such value(s) in "
            f"{rows:,}): expected one of the classes {few(classes)}"
        )
    return labels
