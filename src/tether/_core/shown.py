"""Values in error messages: short, whatever was passed."""

from __future__ import annotations

from typing import Any

import numpy as np

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
