"""Arrays: their types, plain values of frames and lists, ties, and how values are shown."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from itertools import combinations
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
"""An array of real numbers."""
Integers: TypeAlias = NDArray[np.int64]
"""An array of integers: indices, counts, ids."""
Booleans: TypeAlias = NDArray[np.bool_]
"""An array of truth values."""


@runtime_checkable
class Table(Protocol):
    """Anything with rows and a shape: a data frame, a sparse matrix."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, then of columns."""
        ...


Contexts: TypeAlias = "ArrayLike | Table | int"
"""One row per context, or the number of actions where there are no contexts."""
Actions: TypeAlias = ArrayLike
"""One action per row."""
Losses: TypeAlias = "ArrayLike | Mapping[str, ArrayLike]"
"""One loss per action, or several losses by name."""
Frame: TypeAlias = Any
"""A pandas, polars or Arrow table, a dictionary of arrays or a structured array."""


def plain_array(values: Any) -> NDArray[Any]:
    """An array of numbers or strings where every value is one; otherwise the array as it is."""
    array = np.asarray(values)
    if array.dtype.kind == "T":
        array = array.astype(object)  # missing values, if any, are shown as they are
    if array.dtype.kind != "O" or array.size == 0:
        return array
    kinds = set(map(type, array.flat))
    if all(issubclass(kind, str) for kind in kinds):
        return _strings(array)
    if all(issubclass(kind, (bool, np.bool_)) for kind in kinds):
        return array.astype(np.bool_)
    if any(issubclass(kind, (bool, np.bool_)) for kind in kinds):
        return array
    if all(issubclass(kind, numbers.Integral) for kind in kinds):
        return _converted(array, np.int64)
    if all(issubclass(kind, numbers.Real) for kind in kinds):
        return _converted(array, np.float64)
    return array


def plain_column(name: str, values: Any) -> NDArray[Any]:
    """A plain array without missing values, in which strings and other values are not mixed.

    Values that are neither numbers nor strings stay as they are: a policy of the user's own may
    take anything as an action.
    """
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
    missing = [place for place, value in enumerate(array.flat) if is_missing(value)]
    if missing:
        raise ValueError(
            f"{name}[{missing[0]}] is missing ({array.flat[missing[0]]!r}; {len(missing)} such "
            f"value(s) in {array.size}): {advice}"
        )


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one: None, NaN, pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _strings(array: NDArray[Any]) -> NDArray[Any]:
    """Python strings as numpy's; those that end in a NUL would lose it, and stay objects."""
    if any(text.endswith("\0") for text in array.flat):
        return array
    return array.astype(np.str_)


def _converted(array: NDArray[Any], dtype: type) -> NDArray[Any]:
    """Python numbers as a numpy array, or as they are if they are too large for one."""
    try:
        return array.astype(dtype)
    except OverflowError:
        return array


def check_row_indexes(columns: Mapping[str, Any]) -> None:
    """Refuse columns, by name, of which two carry a pandas index and the indexes differ.

    An index that only counts the rows stands for no index, unless another one has the same numbers
    in another order. Lengths are checked elsewhere.
    """
    indexed = [(name, index) for name, index in _indexes(columns) if index is not None]
    for (first_name, first), (name, index) in combinations(indexed, 2):
        if _differ(first, index):
            raise ValueError(_differ_in_words(first_name, first, name, index))


def _indexes(columns: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The index of each column, or None; a mapping of columns counts as several."""
    found = []
    for name, values in columns.items():
        if isinstance(values, Mapping):
            found += [(f"{name}[{key!r}]", _index_of(each)) for key, each in values.items()]
        else:
            found.append((name, _index_of(values)))
    return found


def _index_of(values: Any) -> Any:
    """The index of a pandas object; `index` is a method of lists and strings."""
    index = getattr(values, "index", None) if hasattr(values, "iloc") else None
    return index if hasattr(index, "equals") else None


def _counts_rows(index: Any) -> bool:
    """Whether an index is the one that pandas gives to rows without labels."""
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def _differ(first: Any, second: Any) -> bool:
    """Whether the same positions of two indexes of equal length are different rows."""
    if first is second or len(first) != len(second) or first.equals(second):
        return False
    one, other = np.asarray(first), np.asarray(second)
    if np.array_equal(one, other):  # of another type, such as strings and objects
        return False
    if _counts_rows(first) or _counts_rows(second):
        labels = other if _counts_rows(first) else one
        return labels.dtype.kind in "iu" and np.array_equal(np.sort(labels), np.arange(len(labels)))
    return True


def _differ_in_words(first_name: str, first: Any, name: str, index: Any) -> str:
    one, other = np.asarray(first), np.asarray(index)
    row = next(place for place in range(len(one)) if one[place] != other[place])
    return (
        f"{name} and {first_name} have different row indexes (row {row}: {other[row]!r} and "
        f"{one[row]!r}), so their rows may not belong together: bring them into one order, such as "
        f"{name}.loc[{first_name}.index], or pass .to_numpy() if the order is right"
    )


MAX_CHARACTERS = 120
"""How long the representation of a value may be."""
MAX_VALUES = 3
"""How many values of an array or a list are shown."""


def shown(value: Any) -> str:
    """A value in at most a line: of arrays, frames and other long things the kind and the size."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return _described(value, shape)
    if isinstance(value, (list, tuple, set, frozenset, dict)) and len(value) > MAX_VALUES:
        first = ", ".join(_short(repr(each)) for each in list(value)[:MAX_VALUES])
        return f"a {type(value).__name__} of {len(value)}: {first}, …"
    text = repr(value)
    if len(text) <= MAX_CHARACTERS and "\n" not in text:
        return text
    try:
        return f"{type(value).__name__} of length {len(value)}: {_short(text)}"
    except TypeError:  # it has no length
        return f"{type(value).__name__}: {_short(text)}"


def few(values: Any) -> str:
    """The first values of an array, and how many there are."""
    listed = ", ".join(_short(repr(each)) for each in values[:MAX_VALUES].tolist())
    return listed if len(values) <= MAX_VALUES else f"{listed}, … ({len(values)} in all)"


def _described(value: Any, shape: tuple[Any, ...]) -> str:
    kind = type(value).__name__
    if getattr(value, "columns", None) is not None:
        return f"a {kind} with the columns {_short(str(list(map(str, value.columns))))}"
    dtype = getattr(value, "dtype", None)
    of_dtype = "" if dtype is None else f" of dtype {dtype}"
    first = ""
    if isinstance(value, np.ndarray) and value.size:
        first = ", starting with " + ", ".join(
            _short(repr(each)) for each in value.reshape(-1)[:MAX_VALUES].tolist()
        )
    return f"a {kind} of shape {tuple(shape)}{of_dtype}{first}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


TIE_TOLERANCE = 1e-10
"""The relative tolerance: far above rounding error, far below any difference that matters."""


def within_limit(sums: Any, limit: Any) -> Any:
    """Whether sums of non-negative terms are at most a non-negative limit, up to rounding.

    >>> 10 * 0.23 + 1 <= 0.3 * 11, within_limit(10 * 0.23 + 1, 0.3 * 11)
    (False, True)
    """
    return sums <= limit * (1 + TIE_TOLERANCE)


SUM_ROUNDING = 1e-11
"""The relative rounding error of sums that are compared; a tenth of the tolerance."""
LEAST_SLACK = 1e-13
"""By how much, relatively, a condition passes that holds by zero up to rounding."""


def without_rounding(excess: float, below: float) -> float:
    """P − N of a condition P ≤ N, of which N = `below` contains the tolerance, if it is a tie.

    A tie of the sums without the tolerance passes by exactly the tolerance, one of the sums with it
    by `LEAST_SLACK`: hundreds of calibrations, each on the rows of the last, use it up. Anything
    else is returned as it is.

    >>> f"{without_rounding(-3.0000001e-10, 3.0):.6g}, {without_rounding(2e-16, 3.0):.6g}"
    '-3e-10, -3e-13'
    >>> without_rounding(0.1, 3.0)
    0.1
    """
    tolerated = below * TIE_TOLERANCE / (1 + TIE_TOLERANCE)
    if abs(excess + tolerated) <= SUM_ROUNDING * below:
        return -tolerated
    if abs(excess) <= SUM_ROUNDING * below:
        return -LEAST_SLACK * below
    return excess


def raised_by_tie(excess: float, below: float) -> float:
    """By which share N must be raised so that a tie, of sums with the tolerance, passes; else 0.

    >>> raised_by_tie(2e-16, 3.0) > LEAST_SLACK, raised_by_tie(-1e-9, 3.0)
    (True, 0.0)
    """
    if not abs(excess) < SUM_ROUNDING * below:
        return 0.0
    return (excess - without_rounding(excess, below)) / below


def limit_if_tied(value: float, limit: float, tolerance: float) -> float:
    """The value, or the limit where only rounding has carried the value past it.

    >>> limit_if_tied(0.30000000000000004, 0.3, 1e-6), limit_if_tied(0.31, 0.3, 1e-6)
    (0.3, 0.31)
    """
    return limit if limit < value <= limit * (1 + tolerance) else value
