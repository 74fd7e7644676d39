"""Columns of Arrow record batches as numpy arrays.

Numbers become numbers, with NaN where a value is missing, which every column of scores refuses.
A list column becomes a table with one row per row, if all its lists have the same length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def kind_of(arrow_type: pa.DataType) -> str:
    """What a column holds, in a word: the columns of all files must agree in it."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return kind_of(arrow_type.value_type)
    if types.is_list(arrow_type) or types.is_large_list(arrow_type):
        return f"lists of {kind_of(arrow_type.value_type)}"
    if types.is_fixed_size_list(arrow_type):
        return f"lists of {kind_of(arrow_type.value_type)}"
    for name, found in (
        ("numbers", types.is_integer(arrow_type) or types.is_floating(arrow_type)),
        ("numbers", types.is_boolean(arrow_type) or types.is_decimal(arrow_type)),
        ("strings", types.is_string(arrow_type) or types.is_large_string(arrow_type)),
        ("strings", types.is_string_view(arrow_type)),
        ("nulls", types.is_null(arrow_type)),
    ):
        if found:
            return name
    return str(arrow_type)


def joined(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Several batches as one; none if they have no rows.

    Columns are joined one by one, so that no more than one of them is in memory twice.
    """
    schema: pa.Schema | None = None
    parts: list[list[pa.Array]] = []
    for batch in batches:
        if batch.num_rows:
            if schema is None:
                schema, parts = batch.schema, [[] for _ in batch.columns]
            for part, column in zip(parts, batch.columns, strict=True):
                part.append(column)
        del batch
    if schema is None:
        return []
    columns: list[pa.Array] = []
    while parts:
        columns.append(pa.concat_arrays(parts.pop()))
    return [pa.RecordBatch.from_arrays(columns[::-1], schema=schema)]


def to_arrays(batch: pa.RecordBatch) -> dict[str, NDArray[Any]]:
    """All columns of a batch."""
    return {
        name: to_array(name, column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def to_array(name: str, column: pa.Array) -> NDArray[Any]:
    """One column: one number or string per row, or one row of numbers."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = kind_of(column.type)
    if kind == "numbers":
        return _numbers(column)
    if kind == "nulls":
        return np.full(len(column), np.nan)
    if kind == "strings":
        if column.null_count:
            raise ValueError(f"{name} has {column.null_count} missing value(s)")
        texts = column.to_pylist()
        if any(text[-1:] == "\0" for text in texts):
            raise ValueError(f"{name} has a string that ends in a NUL, which numpy would drop")
        return np.asarray(texts, dtype=np.str_)
    if kind == "lists of numbers":
        return _table(name, column)
    raise TypeError(f"{name} holds {kind}, expected numbers, strings or lists of numbers")


def _numbers(column: pa.Array) -> NDArray[Any]:
    if pa.types.is_decimal(column.type) or (
        column.null_count and not pa.types.is_floating(column.type)
    ):
        column = column.cast(pa.float64(), safe=False)
    if pa.types.is_boolean(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _table(name: str, column: pa.Array) -> NDArray[Any]:
    """Lists of equal length as the rows of a table."""
    if column.null_count:
        raise ValueError(f"{name} has {column.null_count} missing list(s)")
    values = column.flatten()
    width, rest = divmod(len(values), max(len(column), 1))
    if rest or not pa.types.is_fixed_size_list(column.type):
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if len(lengths) and lengths.min() != lengths.max():
            other = int(np.argmax(lengths != lengths[0]))
            raise ValueError(
                f"{name} must have lists of the same length in all rows, got {lengths[0]} in row 0 "
                f"and {lengths[other]} in row {other}"
            )
    return _numbers(values).reshape(len(column), width)
