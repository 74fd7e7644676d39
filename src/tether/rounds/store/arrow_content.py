"""Contexts, candidates and actions as Arrow columns that people can read, and back to bytes.

Numbers are numbers, or lists of numbers; everything else is text. Both directions are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tether.rounds.errors import TamperedError
from tether.rounds.store.codecs import NO_CONTENT, NUMBER_ROWS, Codec


def content_type(codec: Codec | None) -> pa.DataType:
    """The Arrow type of a column."""
    if codec is None or codec.kind == NO_CONTENT:
        return pa.null()
    if codec.kind != NUMBER_ROWS:
        return pa.string()
    try:
        number = pa.from_numpy_dtype(np.dtype(codec.dtype))
    except pa.ArrowNotImplementedError:  # extended precision
        return pa.binary()
    return pa.list_(number) if codec.shape else number


def to_arrow(name: str, codec: Codec | None, rows: Sequence[bytes | None]) -> pa.Array:
    """The bytes of rows as a column; bytes that the codec cannot have made are an error."""
    kind = content_type(codec)
    try:
        if pa.types.is_null(kind):
            return pa.array(rows, kind)
        if pa.types.is_string(kind):
            return pa.array(rows, pa.binary()).cast(kind)
        if pa.types.is_binary(kind):
            return pa.array(rows, kind)
        assert codec is not None
        width = _width(codec)
        size = width * np.dtype(codec.dtype).itemsize
        if any(row is None or len(row) != size for row in rows):
            raise ValueError(f"some rows do not have {size} bytes")
        numbers = pa.array(np.frombuffer(b"".join(map(_present, rows)), dtype=codec.dtype))
        if not codec.shape:
            return numbers
        offsets = pa.array(np.arange(0, width * len(rows) + 1, max(1, width), dtype=np.int32))
        return pa.ListArray.from_arrays(offsets, numbers)
    except (pa.ArrowException, ValueError) as error:
        raise TamperedError(
            f"the store has {name} that are not in the format of the run's first rows ({error})"
        ) from error


def from_arrow(name: str, codec: Codec | None, column: pa.Array) -> list[bytes | None]:
    """The inverse of `to_arrow`; the column has the type that the codec asks for."""
    if pa.types.is_null(column.type) or pa.types.is_binary(column.type):
        return list(column.to_pylist())
    if pa.types.is_string(column.type):
        return list(column.cast(pa.binary()).to_pylist())
    assert codec is not None
    if column.null_count:
        raise ValueError(f"{name} is missing in {column.null_count:,} rows")
    numbers = column
    if codec.shape:
        if (_numbers(column.value_lengths()) != _width(codec)).any():
            raise ValueError(f"{name} must have {_width(codec)} numbers in every row")
        numbers = column.flatten()
    raw = _numbers(numbers).astype(codec.dtype, copy=False).tobytes()
    size = _width(codec) * np.dtype(codec.dtype).itemsize
    return [raw[k : k + size] for k in range(0, len(raw), size)]


def _numbers(column: pa.Array) -> NDArray[Any]:
    """Numbers as an array, without a change to a single bit."""
    if column.null_count:
        raise ValueError(f"{column.null_count:,} numbers are missing")
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array


def _width(codec: Codec) -> int:
    return int(np.prod(codec.shape, dtype=np.int64)) if codec.shape else 1


def _present(row: bytes | None) -> bytes:
    assert row is not None
    return row
