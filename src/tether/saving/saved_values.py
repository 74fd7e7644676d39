"""Checks of the values that a file holds, before an object is built from them."""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Any

import numpy as np

from tether._core.types import Floats

MAX_SAVED_INTEGER = 2**63 - 1
"""The largest count that a file may hold."""


def vector_or_table(name: str, value: Any, *dimensions: int) -> Floats:
    """An array of float64 with one of the numbers of dimensions."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else repr(value)[:80]
        raise ValueError(f"{name} must be an array of float64, got {kind}")
    if value.ndim not in dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, got shape {value.shape}")
    return value


def real(name: str, value: Any) -> float:
    """A number, not NaN; it may be infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise ValueError(f"{name} must be a number, got {repr(value)[:80]}")
    return float(value)


def finite(name: str, value: Any) -> float:
    """A finite number."""
    if not np.isfinite(real(name, value)):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return float(value)


def count(name: str, value: Any, largest: int = MAX_SAVED_INTEGER) -> int:
    """An integer from 0 to the largest one."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise ValueError(f"{name} must be an integer from 0 to {largest:,}, got {repr(value)[:80]}")
    return value


def callable_value(name: str, value: Any) -> Callable[..., Any]:
    """Something that can be called."""
    if not callable(value):
        raise ValueError(f"{name} must be a function, got {repr(value)[:80]}")
    return value  # type: ignore[no-any-return]


def instance(name: str, value: Any, of: type | UnionType) -> Any:
    """An object of a class, or of one of several."""
    if not isinstance(value, of):
        classes = of.__name__ if isinstance(of, type) else of
        raise ValueError(f"{name} must be a {classes}, got {repr(value)[:80]}")
    return value
