"""Contexts of every kind: arrays, frames, lists, numbers of rows; tables with labels."""

from __future__ import annotations

import pickle
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import few, shown
from tether._core.words import counted


def as_contexts(contexts: Any, actions: Any = None) -> Any:
    """Contexts that can be counted and indexed; None stands for the number of `actions`."""
    if actions is not None and np.ndim(actions) == 0:
        raise TypeError(f"actions must have one row per context, got {shown(actions)}")
    if contexts is None and actions is not None:
        contexts = len(actions)
    if np.ma.is_masked(contexts):
        raise ValueError(
            "contexts has masked values: pass contexts.filled(value), with what both policies take "
            "for a missing one, such as numpy.nan"
        )
    number = isinstance(contexts, (int, np.integer)) and not isinstance(contexts, bool)
    if number:
        contexts = int(contexts)
    elif not hasattr(contexts, "iloc") and not hasattr(contexts, "shape"):
        try:
            contexts = np.asarray(contexts)
        except ValueError as error:
            raise ValueError(f"contexts must have rows of the same length: {error}") from error
    if not number and len(contexts.shape) == 0:
        raise TypeError(
            f"contexts must be an array or a frame with one row per context (of one case with "
            f"named features, pandas.DataFrame([case])), or an integer, got {shown(contexts)}"
        )
    if length(contexts) < 1:
        raise ValueError(f"contexts must have at least 1 row, got {length(contexts)}")
    if actions is not None and length(contexts) != len(actions):
        text = f"actions has {counted(len(actions), 'row')} but contexts has {length(contexts)}"
        if hasattr(contexts, "iloc") and len(contexts.shape) == 1:  # taken out as a column
            text += ": one row of a frame is a frame of one row, df.iloc[[0]], not df.iloc[0]"
        raise ValueError(text)
    return contexts


def length(contexts: Any) -> int:
    """The number of contexts, or of actions where there are none."""
    return contexts if isinstance(contexts, int) else int(contexts.shape[0])


def take(contexts: Any, index: NDArray[np.int64]) -> Any:
    """The contexts at `index`, in that order; repeats are allowed."""
    if isinstance(contexts, int):
        return len(index)
    return contexts.iloc[index] if hasattr(contexts, "iloc") else contexts[index]


def part(contexts: Any, start: int, stop: int) -> Any:
    """The contexts from start to before stop."""
    if isinstance(contexts, int):
        return min(stop, contexts) - start
    return (contexts.iloc if hasattr(contexts, "iloc") else contexts)[start:stop]


def parts(contexts: Any, size: int) -> list[Any]:
    """The contexts cut into consecutive parts of `size` rows; the last may be shorter."""
    return [part(contexts, start, start + size) for start in range(0, length(contexts), size)]


def labels(contexts: Any) -> NDArray[np.int64]:
    """An integer for each context that depends on its content alone: equal rows get equal labels.

    Neither the order nor the other rows matter, so contexts can be recognized in another table. The
    width of a number does not matter, but an integer differs from a float; −0.0 equals 0.0, and all
    NaN are equal.
    """
    return column_labels(_columns(contexts))


def column_labels(columns: list[NDArray[Any]]) -> NDArray[np.int64]:
    """The `labels` of contexts that are given column by column."""
    cells = [_cells(column) for column in columns]
    rows = cells[0] if len(cells) == 1 else map(b"".join, zip(*cells, strict=True))
    digests = b"".join(blake2b(row, digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64)


def column_values(column: Any) -> NDArray[Any]:
    """The values of a pandas or polars column, whatever the other rows have.

    Both libraries would make floats of integers where some are missing.
    """
    if hasattr(column, "iloc") and not isinstance(column.dtype, np.dtype):
        return np.asarray(column.astype(object).to_numpy())
    if hasattr(column, "null_count") and column.dtype.is_integer() and column.null_count():
        return np.array(column.to_list(), dtype=object)
    return np.asarray(column.to_numpy())


def _columns(contexts: Any) -> list[NDArray[Any]]:
    """The columns of checked contexts as arrays with one row per context."""
    if hasattr(contexts, "columns"):
        table = getattr(contexts, "iloc", contexts)
        return [column_values(table[:, k]) for k in range(contexts.shape[1])]
    if hasattr(contexts, "tocsr"):  # a SciPy sparse array
        table = contexts.tocsr(copy=True)
        table.sum_duplicates()
        table.eliminate_zeros()
        if table.dtype.kind not in "biuf":
            raise TypeError(f"sparse contexts must hold real numbers, got {table.dtype}")
        position, (kind, entry) = table.indices.astype(np.int64), _numbers(table.data)
        ends, rows = table.indptr, np.empty(table.shape[0], dtype=object)
        rows[:] = [kind + position[a:b].tobytes() + entry[a:b].tobytes() for a, b in pairwise(ends)]
        return [rows]
    if hasattr(contexts, "candidates"):  # a shortlist: a context is known with its candidates
        own = contexts.contexts
        return [*([] if isinstance(own, int) else _columns(own)), contexts.candidates]
    return [column_values(contexts) if hasattr(contexts, "to_numpy") else np.asarray(contexts)]


def _cells(column: NDArray[Any]) -> list[bytes]:
    """Bytes for each row of an array: all of the same length, or preceded by their length."""
    if column.dtype.kind in "biufmM":
        kind, column = _numbers(column)
        raw = np.ascontiguousarray(column).tobytes()
        width = len(raw) // len(column)
        return [kind + raw[row * width : (row + 1) * width] for row in range(len(column))]
    return [_cell(value) for value in column.tolist()]


def _cell(value: Any) -> bytes:
    """Bytes for one value of any kind; a number has the same as in a column of numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value).__name__ == "NAType":  # pandas' missing value is read back as None
        value = None
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return b"i" + np.int64(value).tobytes()
    if isinstance(value, float):
        kind, number = _numbers(np.array([value]))
        return kind + number.tobytes()
    if isinstance(value, np.ndarray):
        value = (value.shape, value.tolist())
    if isinstance(value, (list, tuple)):
        content = b"".join(map(_cell, value))
    else:
        content = pickle.dumps(value, protocol=4)
    return b"%b%d:" % (type(value).__name__.encode(), len(content)) + content


def _numbers(column: NDArray[Any]) -> tuple[bytes, NDArray[Any]]:
    """A letter for integers or floats, and the numbers at full width with one zero and one NaN."""
    if column.dtype.kind != "f":
        return b"i", column.astype(np.int64)
    column = column.astype(np.float64) + 0.0
    column[np.isnan(column)] = np.nan
    return b"f", column


def labels_of(table: Any) -> list[Any] | None:
    """The names of a frame's columns, or of the values of a pandas Series; None without names.

    Names that only count the columns, as pandas and polars give them, stand for no names.
    """
    listed = _listed(table)
    return None if listed is None or _only_count(listed) else listed


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
    counts = _only_count(listed)
    if counts and (not are_actions or wanted == found):
        return table
    if counts or not are_actions:
        raise ValueError(
            f"{name} has the columns {few(np.array(found))}, and the actions are "
            f"{few(np.asarray(actions))}: name each column by its action, and not by its number, "
            f"or return .to_numpy() with the columns in the order of the actions"
        )
    return np.asarray(table)[..., [found.index(action) for action in wanted]]


def _listed(table: Any) -> list[Any] | None:
    """The names of the columns or values, whatever they are; None where there are none."""
    named = getattr(table, "column_names", getattr(table, "columns", None))  # of Arrow first
    if named is None and hasattr(table, "iloc"):
        named = table.index
    return None if named is None or callable(named) else list(named)


def _only_count(listed: list[Any]) -> bool:
    """Whether names count the columns: 0, 1, … as integers, not as booleans or other numbers."""
    if all(isinstance(each, int | np.integer) and not isinstance(each, bool) for each in listed):
        return listed == list(range(len(listed)))
    return listed == [f"column_{count}" for count in range(len(listed))]
