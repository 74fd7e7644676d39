"""Arrays: their types, plain values of frames and lists, ties, and how values are shown."""

from __future__ import annotations

import numbers
import reprlib
from collections.abc import Mapping
from contextlib import suppress
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
"""An array of real numbers."""
Integers: TypeAlias = NDArray[np.int64]
"""An array of integers: indices, counts, ids."""
Booleans: TypeAlias = NDArray[np.bool_]
"""An array of truth values."""

Contexts: TypeAlias = Any
"""One row per context (an array, a frame), or the number of actions where there are none."""
Actions: TypeAlias = ArrayLike
"""One action per row."""
Losses: TypeAlias = "ArrayLike | Mapping[str, ArrayLike]"
"""One loss per action, or several losses by name."""
Frame: TypeAlias = Any
"""A pandas, polars or Arrow table, a dictionary of arrays or a structured array."""


def plain_array(values: Any) -> NDArray[Any]:
    """An array of numbers or strings where every value is one; otherwise the array as it is."""
    if np.ma.is_masked(values):
        values = np.where(values.mask, None, values.data)
    array = np.asarray(values)
    if array.dtype.kind == "T":
        array = array.astype(object)  # missing values, if any, are shown as they are
    if array.dtype.kind != "O" or array.size == 0:
        return array
    kinds = {np.bool_ if issubclass(kind, bool) else kind for kind in map(type, array.flat)}

    def all_are(wanted: type) -> bool:
        return all(issubclass(kind, wanted) for kind in kinds)

    if all_are(str) and not any(text.endswith("\0") for text in array.flat):
        return array.astype(np.str_)  # which would lose a NUL at the end
    if all_are(np.bool_):
        return array.astype(np.bool_)
    if all_are(numbers.Real):  # truth values of numpy are not
        with suppress(OverflowError):
            if all_are(numbers.Integral):
                return array.astype(np.int64)
            if all(isinstance(each, float) or abs(each) <= 1 << 53 for each in array.flat):
                return array.astype(np.float64)  # which would change larger integers
    return array


def plain_column(name: str, values: Any) -> NDArray[Any]:
    """A plain array without missing values, in which strings and other values are not mixed."""
    array = plain_array(values)
    reject_missing(name, array)
    if isinstance(values, (list, tuple)) and array.dtype.kind in "US" and array.ndim == 1:
        for place, value in enumerate(values):
            if not isinstance(value, (str, bytes)):  # numpy has turned it into a string
                raise TypeError(
                    f"{name} must be all numbers or all strings, got {name}[{place}] = {value!r} "
                    f"beside strings"
                )
    return array


def reject_missing(
    name: str, array: NDArray[Any], advice: str = "every row must have a value"
) -> None:
    """Refuse an array of objects in which a value is missing."""
    if array.dtype.kind != "O":
        return
    if missing := [place for place, value in enumerate(array.flat) if is_missing(value)]:
        raise ValueError(
            f"{name}[{missing[0]}] is missing ({array.flat[missing[0]]!r}; {len(missing)} such "
            f"value(s) in {array.size}): {advice}"
        )


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one: None, NaN, pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def check_row_indexes(columns: Mapping[str, Any]) -> None:
    """Refuse columns, by name, of which two carry a pandas index and the indexes differ.

    An index that only counts the rows stands for no index, unless another one has the same numbers
    in another order. Lengths are checked elsewhere.
    """
    each: dict[str, Any] = {}
    for name, values in columns.items():
        inner = values if isinstance(values, Mapping) else None
        each |= {name: values} if inner is None else {f"{name}[{k!r}]": v for k, v in inner.items()}
    indexed = [(name, values.index) for name, values in each.items() if hasattr(values, "iloc")]
    for (first_name, first), (name, index) in combinations(indexed, 2):
        one, other = np.asarray(first), np.asarray(index)
        if len(one) != len(other) or np.array_equal(one, other):
            continue
        counts = any(np.array_equal(each, np.arange(len(one))) for each in (one, other))
        if counts and set(one.tolist()) != set(other.tolist()):
            continue
        row = next(place for place in range(len(one)) if one[place] != other[place])
        raise ValueError(
            f"{name} and {first_name} have different row indexes (row {row}: {other[row]!r} and "
            f"{one[row]!r}), so their rows may not belong together: bring them into one order, "
            f"such as {name}.loc[{first_name}.index], or pass .to_numpy() if the order is right"
        )


MAX_VALUES = 3
"""How many values of an array or a list are shown."""
_short = reprlib.Repr()
_short.maxlist = _short.maxtuple = _short.maxset = _short.maxdict = MAX_VALUES
_short.maxstring = _short.maxlong = _short.maxother = 120


def shown(value: Any) -> str:
    """A value in at most a line: of arrays, frames and other long things the kind and the size."""
    text, kind = " ".join(_short.repr(value).split()), type(value).__name__
    shape = getattr(value, "shape", ())
    if not isinstance(shape, tuple) or not shape:
        return text
    if getattr(value, "columns", None) is not None:
        return f"a {kind} with the columns {_short.repr(list(map(str, value.columns)))}"
    return f"a {kind} of shape {tuple(shape)}: {text}"


def few(values: Any) -> str:
    """The first values of an array, and how many there are."""
    listed = ", ".join(map(_short.repr, values[:MAX_VALUES].tolist()))
    return listed if len(values) <= MAX_VALUES else f"{listed}, … ({len(values)} in all)"


TIE_TOLERANCE = 1e-10
"""The relative tolerance: far above rounding error, far below any difference that matters."""


def within_limit(sums: Any, limit: Any) -> Any:
    """Whether sums of non-negative terms are at most a non-negative limit, up to rounding.

    >>> 10 * 0.23 + 1 <= 0.3 * 11, within_limit(10 * 0.23 + 1, 0.3 * 11)
    (False, True)
    """
    return sums <= limit * (1 + TIE_TOLERANCE)
