"""Columns out of any frame: pandas, polars, Arrow, a dictionary of arrays, a structured array.

All of them answer `frame[name]` with something numpy can read, so one path serves them all and no
frame library is ever imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def names(frame: Any) -> list[str]:
    """The column names of a frame."""
    for attribute in ("column_names", "columns"):
        found = getattr(frame, attribute, None)
        if found is not None:
            return [str(name) for name in found]
    dtype = getattr(frame, "dtype", None)
    if dtype is not None and dtype.names:
        return list(dtype.names)
    if hasattr(frame, "keys"):
        return [str(name) for name in frame.keys()]  # noqa: SIM118 - not every frame iterates keys
    raise TypeError(f"frame must have named columns, got {type(frame).__name__}")


def column(frame: Any, argument: str, name: str) -> NDArray[Any]:
    """One column; `argument` is what the caller's user called it, for the error."""
    known = names(frame)
    if name not in known:
        raise ValueError(f"{argument}: there is no column {name!r}; the frame has {known}")
    if known.count(name) > 1:
        raise ValueError(f"{argument}: there are {known.count(name)} columns {name!r}")
    try:
        return np.asarray(frame[name])
    except TypeError as error:
        raise TypeError(
            f"frame of type {type(frame).__name__} has no columns to read yet; collect it first"
        ) from error


def optional(frame: Any, argument: str, name: str | None) -> NDArray[Any] | None:
    """A column that was named, else the one that has the argument's own name, else nothing."""
    if name is not None:
        return column(frame, argument, name)
    return column(frame, argument, argument) if argument in names(frame) else None


def table(frame: Any, argument: str, chosen: Sequence[str] | None) -> NDArray[Any] | None:
    """Several columns side by side: those named, else all that are called `argument_…`."""
    if chosen is None:
        chosen = [name for name in names(frame) if name.startswith(f"{argument}_")]
    if not chosen:
        return None
    return np.column_stack([column(frame, argument, name) for name in chosen])
