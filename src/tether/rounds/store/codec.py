"""Contexts and actions as bytes, one string of them a row, and back.

What a run's first rows are like is written down once; later rows must be alike, so that what is
read is what was written: numbers of the same type and shape, text, or a frame's columns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NUMBERS, TEXT, LISTS, FRAME, NOTHING = "numbers", "text", "lists", "frame", "nothing"


@dataclass(frozen=True)
class Codec:
    """How the rows of one argument are written: `kind`, and what tells it from others like it."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, rows: Any) -> Codec:
        """The codec that suits these rows; a number of contexts is nothing to write."""
        if isinstance(rows, int):
            return cls(NOTHING)
        if hasattr(rows, "get_columns") and not hasattr(rows, "iloc"):
            raise TypeError(
                f"{name} is a {type(rows).__name__}, which cannot be stored as it is: pass its "
                f"to_pandas() or to_numpy()"
            )
        if hasattr(rows, "iloc") and len(rows.shape) == 2:
            _check_names(name, list(rows.columns))
            columns = tuple((str(key), _column_type(name, rows[key])) for key in rows.columns)
            return cls(FRAME, columns=columns)
        array = np.asarray(rows)
        if array.dtype.kind in "biuf":
            return cls(NUMBERS, array.dtype.newbyteorder("<").str, array.shape[1:])
        if array.dtype.kind == "U" or _all(array, str):
            return cls(TEXT, shape=array.shape[1:])
        if array.ndim == 1 and _all(array, (list, tuple, dict)):
            return cls(LISTS)
        raise TypeError(
            f"{name} must be numbers, text, lists or a pandas frame of these to be stored, got "
            f"dtype {array.dtype} (first value {next(iter(array.flat), None)!r})"
        )

    def widened(self) -> Codec:
        """The same for numbers of any width of their kind: actions come from more than one hand."""
        wide = {"f": "<f8", "i": "<i8", "u": "<u8"}
        if self.kind != NUMBERS:
            return self
        return Codec(self.kind, wide.get(np.dtype(self.dtype).kind, self.dtype), self.shape)

    def encode(self, name: str, rows: Any) -> list[bytes | None]:
        """Rows as bytes, one for each; an error if they are not like the first."""
        if self.kind == NOTHING and isinstance(rows, int):
            return [None] * rows
        found = Codec.of(name, rows)
        if found.kind == NUMBERS == self.kind and found.shape == self.shape:
            if not np.can_cast(found.dtype, self.dtype, "safe"):
                raise TypeError(
                    f"{name} has dtype {np.dtype(found.dtype)} but the run's first had "
                    f"{np.dtype(self.dtype)}, which cannot hold it"
                )
            raw = np.ascontiguousarray(rows, dtype=self.dtype).tobytes()
            width = len(raw) // len(rows)
            return [raw[k : k + width] for k in range(0, len(raw), width)] if width else []
        if found != self and found.widened() != self:
            raise TypeError(f"{name} is {found.words()} but the run's first was {self.words()}")
        if self.kind == FRAME:
            rows = [list(row) for row in zip(*(_plain(rows[c]) for c in rows), strict=True)]
        else:
            rows = np.asarray(rows).tolist()
        if self.kind == TEXT and not self.shape:
            return [_encoded(name, row) for row in rows]
        return [_written(name, row) for row in rows]

    def decode(self, rows: Sequence[bytes | None]) -> Any:
        """Rows as they were given: an array, a frame, or their number."""
        if self.kind == NOTHING:
            return len(rows)
        kept = [bytes(row) for row in rows if row is not None]
        if self.kind == NUMBERS:
            flat = np.frombuffer(b"".join(kept), dtype=self.dtype)
            return flat.astype(flat.dtype.newbyteorder("=")).reshape(len(rows), *self.shape)
        if self.kind == TEXT and not self.shape:
            return np.array([row.decode() for row in kept], dtype=np.str_)
        plain = [json.loads(row) for row in kept]
        if self.kind == TEXT:
            return np.array(plain, dtype=np.str_).reshape(len(rows), *self.shape)
        if self.kind == LISTS:
            array = np.empty(len(plain), dtype=object)
            array[:] = plain
            return array
        import pandas as pd

        names = [name for name, _ in self.columns]
        frame = pd.DataFrame(plain, columns=names)
        return frame.astype({name: kind for name, kind in self.columns if kind != "str"})

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "kind": self.kind,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "columns": [list(pair) for pair in self.columns],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Codec:
        """Undo `to_dict`."""
        columns = tuple((str(name), str(kind)) for name, kind in plain["columns"])
        return cls(plain["kind"], plain["dtype"], tuple(plain["shape"]), columns)

    def words(self) -> str:
        """For an error."""
        if self.kind == NOTHING:
            return "a number, for actions without contexts"
        if self.kind == NUMBERS:
            return f"numbers ({np.dtype(self.dtype)}) of shape {self.shape} a row"
        if self.kind == FRAME:
            return f"a frame with {dict(self.columns)}"
        return f"{self.kind} of shape {self.shape} a row"


def _all(array: Any, kinds: Any) -> bool:
    return array.dtype == object and all(isinstance(value, kinds) for value in array.flat)


def _plain(column: Any) -> list[Any]:
    return list(column.to_numpy().tolist())


def _check_names(name: str, columns: list[Any]) -> None:
    if not columns or len(set(columns)) < len(columns):
        raise TypeError(f"{name} must have columns of different names to be stored, got {columns}")
    for column in columns:
        if not isinstance(column, str):
            raise TypeError(f"{name} must have columns named by text to be stored, got {column!r}")


def _encoded(name: str, text: str) -> bytes:
    try:
        if text.endswith("\x00"):
            raise ValueError("it ends with a NUL character")
        return text.encode()
    except ValueError as error:
        raise ValueError(
            f"{name} holds the text {text!r}, which cannot be stored: {error}"
        ) from None


def _written(name: str, row: Any) -> bytes:
    """JSON that reads back as it was; what does not (tuples, keys that are no text) is refused."""
    try:
        text = json.dumps(row, ensure_ascii=False)
        same = json.dumps(json.loads(text), ensure_ascii=False) == text and _plain_lists(row)
        if not same:
            raise TypeError("it would not read back the same")
        return text.encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} holds {row!r}, which cannot be stored ({error}): use lists, text keys and "
            f"plain numbers"
        ) from None


def _plain_lists(row: Any) -> bool:
    """Whether there is no tuple and no key but text in it."""
    if isinstance(row, dict):
        return all(isinstance(key, str) for key in row) and all(map(_plain_lists, row.values()))
    if isinstance(row, list):
        return all(map(_plain_lists, row))
    return not isinstance(row, tuple)


def _column_type(name: str, column: Any) -> str:
    if hasattr(column.dtype, "categories"):
        raise TypeError(
            f"{name}[{column.name!r}] holds categories, whose codes would be lost: give codes or "
            f"text instead"
        )
    values = column.to_numpy()
    if values.dtype.kind in "biuf":
        return str(values.dtype)
    if values.dtype.kind == "U" or _all(values, str):
        return "str"
    raise TypeError(
        f"{name}[{column.name!r}] must hold numbers or text to be stored, got dtype {values.dtype}"
    )
