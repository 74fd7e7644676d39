"""The columns of claims, checked: scores, labels, and where the claims of each item begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.shown import shown
from tether._core.types import Booleans, Floats, Integers

MOST_NAMED = 6
"""How many columns of a table an error names."""
CLAIMS_PER_BLOCK = 1 << 18
"""Processed at once: small enough for the cache, large enough for numpy."""


def finite_scores(name: str, values: ArrayLike) -> Floats:
    """Scores: real and finite. NaN cannot be ordered, and no threshold is safer than infinity."""
    require_column(name, values)
    array = validate.floats(name, values)
    for start in range(0, len(array), CLAIMS_PER_BLOCK):
        if not np.isfinite(array[start : start + CLAIMS_PER_BLOCK]).all():
            validate.reject(name, array, ~np.isfinite(array), "a finite score")
    return array


def require_column(name: str, values: ArrayLike) -> None:
    """Refuse a whole table where one of its columns is asked for."""
    names = [str(each) for each in getattr(values, "columns", ())]
    if names and np.ndim(values) == 2:
        raise TypeError(
            f"{name} must be one column, got a table with the columns {names[:MOST_NAMED]}: pass "
            f"one of them, such as table[{names[0]!r}]"
        )


def binary_labels(name: str, values: ArrayLike) -> Booleans:
    """Labels: booleans, or numbers that are 0 or 1."""
    require_column(name, values)
    validate.reject_masked(name, values)
    array = np.asarray(values)
    if array.dtype == np.bool_ and array.ndim == 1 and array.size:
        return validate.frozen(array)
    first = array.reshape(-1)[0].item() if array.dtype.kind in "US" and array.size else None
    if array.dtype.kind == "O" and array.size:
        first = array.reshape(-1)[0]
    if isinstance(first, str):
        raise TypeError(
            f"{name} must hold booleans, or 0 and 1, got text such as {first!r}: compare the "
            f"column with the word that means {_label_one(name)}, as in column == 'yes'"
        )
    if array.dtype.kind not in "fiubO":
        raise TypeError(f"{name} must hold booleans, or 0 and 1, got {shown(array)}")
    numbers = validate.floats(name, array)
    bad = (numbers != 0) & (numbers != 1)
    if bad.any():
        validate.reject(name, numbers, bad, "a label of 0 or 1")
    return validate.frozen(numbers.astype(np.bool_))


def _label_one(name: str) -> str:
    return "a true claim" if name == "supported" else "a positive label"


def checked_offsets(values: ArrayLike, n_claims: int) -> Integers:
    """Where the claims of each item begin, and the number of claims at the end."""
    validate.reject_masked("offsets", values)
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1 or len(array) < 2:
        raise ValueError(
            "offsets must be one-dimensional integers, one more than there are items, "
            f"got dtype {array.dtype} and shape {array.shape}"
        )
    array = array.astype(np.int64)
    if array[0] != 0:
        raise ValueError(f"offsets must start at 0, got offsets[0] = {array[0]}")
    decreases = np.flatnonzero(np.diff(array) < 0)
    if len(decreases):
        i = int(decreases[0])
        raise ValueError(
            f"offsets must not decrease, got offsets[{i}] = {array[i]} before "
            f"offsets[{i + 1}] = {array[i + 1]}"
        )
    if array[-1] != n_claims:
        raise ValueError(f"offsets must end at the number of claims, {n_claims}, got {array[-1]}")
    return validate.frozen(array)
