"""Contexts from JSON values, in the format of a run's rows, and actions as JSON values.

The format of contexts is fixed by the first rows of a run. Before those, numbers are floats, since
JSON does not tell 1 from 1.0, lists of numbers are vectors, and other lists and objects stay as
they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.rounds.store.codecs import (
    LIST_ROWS,
    NO_CONTENT,
    NUMBER_ROWS,
    TEXT_ROWS,
    Codec,
    text_array,
)
from tether.rounds.store.frame_columns import CATEGORY, TEXT

MAX_EXACT_INTEGER = 1 << 53
"""Larger integers are not floats."""


def contexts_from_json(values: Sequence[Any], codec: Codec | None = None) -> Any:
    """Contexts, one for each value; null stands for no context.

    `codec` is the format of the run's contexts, if it is known.
    """
    if not values:
        raise ValueError("contexts is empty: at least one is needed")
    try:
        return _converted(values, codec)
    except RecursionError:
        raise ValueError("contexts are nested too deeply") from None


def _converted(values: Sequence[Any], codec: Codec | None) -> Any:
    known = _kind(values) if codec is None else codec.kind
    if known == NO_CONTENT:
        _check_all(values, lambda each: each is None, "null, as this run has no contexts")
        return len(values)
    if known == TEXT_ROWS and not (codec and codec.shape):
        return _texts(values)
    if codec is not None and codec.is_frame:
        return _frame(values, codec)
    if known == LIST_ROWS:
        _check_all(values, lambda each: isinstance(each, list | dict), "a list or an object")
        return _objects(values)
    if known == NUMBER_ROWS:
        return _numbers(values, codec)
    array = np.array(values, dtype=np.str_)  # rows of several texts
    if codec is None or array.shape[1:] != codec.shape:
        raise ValueError(f"contexts must be lists of texts of one length, got {values[0]!r:.80}")
    return array


def actions_to_json(actions: NDArray[Any]) -> list[Any]:
    """Actions as JSON values, one for each."""
    return list(np.asarray(actions).tolist())


def json_number(value: float) -> float | str:
    """A number as JSON can have it; an infinite beta, as text, is "inf"."""
    return value if math.isfinite(value) else str(value)


def _kind(values: Sequence[Any]) -> str:
    """The format of the first contexts of a run."""
    first = values[0]
    if first is None:
        return NO_CONTENT
    if isinstance(first, str):
        return TEXT_ROWS
    if _is_number(first) or isinstance(first, bool):
        return NUMBER_ROWS
    is_vector = isinstance(first, list) and first and all(map(_is_number, first))
    return NUMBER_ROWS if is_vector else LIST_ROWS


def _numbers(values: Sequence[Any], codec: Codec | None) -> NDArray[Any]:
    flat: list[Any] = []
    shape = _shape(values[0]) if codec is None else codec.shape
    for place, each in enumerate(values):
        if _shape(each) != shape:
            wanted = f"lists of shape {shape}" if shape else "single numbers"
            raise ValueError(f"contexts must be {wanted}, got contexts[{place}] = {each!r:.80}")
        _flatten(each, flat)
    kind = np.dtype(codec.dtype if codec else "bool" if isinstance(flat[0], bool) else "f8")
    for number in flat:
        if not _fits(number, kind):
            raise ValueError(f"contexts must be of the type {kind}, got {number!r:.80}")
    return np.array(flat, dtype=kind.newbyteorder("=")).reshape(len(values), *shape)


def _fits(value: Any, kind: np.dtype[Any]) -> bool:
    """Whether a value is exactly a number of this type, or a float that is nearly one."""
    if kind.kind == "b" or not _is_number(value):
        return kind.kind == "b" and isinstance(value, bool)
    if kind.kind == "f":
        if isinstance(value, int):
            return abs(value) <= MAX_EXACT_INTEGER
        return math.isfinite(value) and abs(value) <= float(np.finfo(kind).max)
    is_whole = isinstance(value, int) or value.is_integer()
    return bool(is_whole and np.iinfo(kind).min <= value <= np.iinfo(kind).max)


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    inner = {_shape(each) for each in value}
    if len(inner) > 1:
        return (-1,)  # of no array
    return (len(value), *(inner.pop() if inner else ()))


def _flatten(value: Any, into: list[Any]) -> None:
    if isinstance(value, list):
        for each in value:
            _flatten(each, into)
    else:
        into.append(value)


def _texts(values: Sequence[Any]) -> NDArray[Any]:
    """Text as an array of text, unless its padding takes too much memory."""
    _check_all(values, lambda each: isinstance(each, str) and "\0" not in each, "text without NUL")
    return text_array(list(values), ())


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    for place, each in enumerate(values):
        array[place] = each
    return array


def _frame(values: Sequence[Any], codec: Codec) -> Any:
    names = [name for name, _ in codec.columns]
    wanted = f"an object with {', '.join(names)}"
    _check_all(values, lambda each: isinstance(each, dict) and set(each) == set(names), wanted)
    columns: dict[str, Any] = {}
    for name, kind in codec.columns:
        column = [each[name] for each in values]
        is_text = kind == TEXT or kind.startswith(CATEGORY)
        as_codec = Codec(TEXT_ROWS) if is_text else Codec(NUMBER_ROWS, np.dtype(kind).str)
        columns[name] = contexts_from_json(column, as_codec)
    return codec.frame(columns)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_all(values: Sequence[Any], accepted: Any, wanted: str) -> None:
    for place, each in enumerate(values):
        if not accepted(each):
            raise ValueError(f"contexts must be {wanted}, got contexts[{place}] = {each!r:.80}")
