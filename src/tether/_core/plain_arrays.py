"""Columns as users have them, as plain arrays of numbers or strings.

Strings arrive in many forms: object arrays (pandas, Arrow), pandas categories and string types,
polars categories and enumerations, numpy's StringDType. All of them become numpy's own strings
here, so that every room compares and sorts the same thing.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
