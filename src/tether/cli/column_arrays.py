"""Arrays that are allocated once and filled from Arrow batches, one per column of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

CODE_BYTES = 4
"""The size of a code of a text, of which each different one is kept once."""
TEXT_BYTES = 200
"""About how much memory a different text takes while a column is read."""


class MissingValuesError(ValueError):
    """A column has missing values that no array of its kind can hold."""

    def __init__(self, column: str, count: int) -> None:
        super().__init__(f"column {column!r} has {count} missing value(s)")
        self.column, self.count = column, count


class ColumnArray:
    """A column of numbers, booleans or times."""

    def __init__(self, name: str, dtype: np.dtype[Any]) -> None:
        self.name, self.dtype = name, dtype
        self.missing, self.is_number = 0, False

    @property
    def bytes_per_row(self) -> float:
        """How much memory a row takes."""
        return self.dtype.itemsize

    @property
    def fixed_bytes(self) -> float:
        """How much memory the column takes apart from its rows."""
        return 0.0

    def allocate(self, rows: int) -> None:
        """Make room for so many rows."""
        self._array: NDArray[Any] = np.empty(rows, self.dtype)

    def fill(self, start: int, chunk: pa.Array) -> None:
        """Put a batch of values at a position."""
        self.missing += chunk.null_count
        if chunk.null_count and self.is_number and pa.types.is_boolean(chunk.type):
            chunk = chunk.cast(pa.int8())
            self._array = self._array.astype(np.float64)  # a missing one is a NaN
        values = chunk.to_numpy(zero_copy_only=False)
        if pa.types.is_null(chunk.type):
            values = np.full(len(chunk), np.nan)
        elif values.dtype == object:
            raise MissingValuesError(self.name, chunk.null_count)
        if chunk.null_count and self._array.dtype.kind in "iu":  # a missing integer is a NaN
            self._array = self._array.astype(np.float64)
        self._array[start : start + len(values)] = values

    def finished(self, rows: int) -> NDArray[Any]:
        """The first rows of the array."""
        return self._array[:rows]


class TextArray(ColumnArray):
    """A column of texts: a code for each row, and each different text once."""

    def __init__(self, name: str) -> None:
        super().__init__(name, np.dtype(np.int32))
        self._code_of: dict[str | None, int] = {}
        self._longest = 1

    @property
    def bytes_per_row(self) -> float:
        """How much memory a row takes, as far as the texts are known."""
        return CODE_BYTES + 4 * self._longest  # numpy has four bytes per character

    @property
    def fixed_bytes(self) -> float:
        """How much memory the different texts take."""
        return TEXT_BYTES * len(self._code_of)

    def fill(self, start: int, chunk: pa.Array) -> None:
        """Put a batch of texts at a position."""
        self.missing += chunk.null_count
        if not pa.types.is_dictionary(chunk.type):
            chunk = chunk.dictionary_encode()
        texts = chunk.dictionary.to_pylist()
        places = chunk.indices
        if places.null_count:
            places, texts = places.fill_null(len(texts)), [*texts, None]
        codes = np.array([self._code(text) for text in texts], dtype=self.dtype)
        stop = start + len(places)
        self._array[start:stop] = codes[places.to_numpy(zero_copy_only=False)]

    def _code(self, text: str | None) -> int:
        code = self._code_of.setdefault(text, len(self._code_of))
        self._longest = max(self._longest, 0 if text is None else len(text))
        return code

    def finished(self, rows: int) -> NDArray[Any]:
        """The texts as an array; one of objects if some are missing."""
        texts = list(self._code_of)
        distinct = np.array(texts, dtype=object if None in self._code_of else np.str_)
        return np.asarray(distinct[self._array[:rows]])


def make_column(name: str, kind: pa.DataType, is_number: bool) -> ColumnArray:
    """The array for a column of an Arrow type."""
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_string(values) or pa.types.is_large_string(values):
        return TextArray(name)
    if pa.types.is_floating(kind) or pa.types.is_null(kind):
        return ColumnArray(name, np.dtype(np.float64))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        dtype = np.float64 if is_number and pa.types.is_integer(kind) else kind.to_pandas_dtype()
        column = ColumnArray(name, np.dtype(dtype))
        column.is_number = is_number
        return column
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return ColumnArray(name, pa.array([], kind).to_numpy(zero_copy_only=False).dtype)
    raise ValueError(f"column {name!r} must hold numbers, booleans, text or times, got {kind}")
