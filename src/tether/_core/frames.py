"""Columns of frames by name, and which of them are contexts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Frame, plain_array, shown
from tether._core.contexts import column_labels


def names(frame: Frame) -> list[str]:
    """The column names of a frame."""
    listed = getattr(frame, "column_names", getattr(frame, "columns", None))
    if listed is None:
        listed = getattr(getattr(frame, "dtype", None), "names", None)
    if listed is None and hasattr(frame, "keys"):
        listed = frame.keys()
    if listed is None:
        raise TypeError(f"frame must have named columns, got {type(frame).__name__}")
    return [str(name) for name in listed]


def column(frame: Frame, argument: str, name: str) -> NDArray[Any]:
    """One column as an array; errors call it by the name of the user's `argument`."""
    known = names(frame)
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be the name of a column, got {shown(name)}")
    if name not in known:
        raise ValueError(f"{argument}: there is no column {name!r}; the frame has {known}")
    values = frame[name]
    return plain_array(values) if np.ma.is_masked(values) else np.asarray(values)


UNSTATED = "<must be stated>"
"""The default of an argument that must be stated although None is one of its values."""
ContextColumns: TypeAlias = "str | Sequence[str] | None"
"""A column, several columns, or None for no contexts."""


def read_contexts(
    frame: Frame, context: ContextColumns, used: Collection[str], *, has_tables: bool = False
) -> NDArray[Any] | None:
    """One label per row from the stated columns; None if it is stated that there are no contexts.

    A single column of integers or strings is its own label; other rows are labelled by content.
    With tables of all actions contexts need not be stated: each row then has its own normalizing
    constant in any case.
    """
    unstated = isinstance(context, str) and context == UNSTATED
    if unstated and not has_tables:
        could = [name for name in names(frame) if name not in used]
        raise TypeError(
            "context must be stated: context='column', context=['feature', 'feature'] (rows with "
            "equal features are in the same context), or context=None if neither policy depends on "
            f"a context; the columns that could be contexts are {could}"
        )
    if context is None or unstated:
        return None
    columns = [context] if isinstance(context, str) else list(context)
    if not columns:
        raise ValueError("context is empty: name at least one column, or write context=None")
    if both := [name for name in columns if name in used]:
        raise ValueError(f"context: the columns {both} are read already: none can be a context too")
    arrays = [plain_array(column(frame, "context", name)) for name in columns]
    if isinstance(context, str) and arrays[0].dtype.kind in "iubUS":
        return arrays[0]
    return column_labels(arrays)
