"""Columns of any frame: pandas, polars, Arrow, a dictionary of arrays, a structured array.

All of them return something that numpy can read for `frame[name]`, so no frame library is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Frame


class NoSuchColumnError(ValueError):
    """A frame without a column that was named, or that is looked for by default."""

    def __init__(self, argument: str, name: str, known: list[str]) -> None:
        super().__init__(f"{argument}: there is no column {name!r}; the frame has {known}")
        self.argument, self.name, self.known = argument, name, known


def names(frame: Frame) -> list[str]:
    """The column names of a frame."""
    for attribute in ("column_names", "columns"):
        listed = getattr(frame, attribute, None)
        if listed is not None:
            return [str(name) for name in listed]
    dtype = getattr(frame, "dtype", None)
    if dtype is not None and dtype.names:
        return list(dtype.names)
    if hasattr(frame, "keys"):
        return [str(name) for name in frame.keys()]  # noqa: SIM118 - not every frame iterates keys
    raise TypeError(f"frame must have named columns, got {type(frame).__name__}")


def column(frame: Frame, argument: str, name: str) -> NDArray[Any]:
    """One column as an array; errors call it by the name of the user's `argument`."""
    known = names(frame)
    if name not in known:
        raise NoSuchColumnError(argument, name, known)
    if known.count(name) > 1:
        raise ValueError(f"{argument}: there are {known.count(name)} columns {name!r}")
    try:
        return np.asarray(frame[name])
    except TypeError as error:
        raise TypeError(
            f"frame of type {type(frame).__name__} cannot be read by column; if it is lazy, "
            f"collect it first"
        ) from error


def optional(frame: Frame, argument: str, name: str | None) -> NDArray[Any] | None:
    """The named column, else the column with the argument's own name, else None."""
    if name is not None:
        return column(frame, argument, name)
    return column(frame, argument, argument) if argument in names(frame) else None


def table(frame: Frame, argument: str, columns: Sequence[str] | None) -> NDArray[Any] | None:
    """Several columns side by side: the named ones, else all called `argument_…`, else None."""
    if columns is None:
        columns = [name for name in names(frame) if name.startswith(f"{argument}_")]
    if not columns:
        return None
    return np.column_stack([column(frame, argument, name) for name in columns])
