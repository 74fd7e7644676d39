"""How contexts, candidates and actions become bytes in the database, and back.

In the database a context or an action is one byte string per row. Their format is fixed by a run's
first rows and stored once. Later rows must have the same format, so that what is read is what was
written: numbers of the same type and shape, text, lists, or the columns of a frame.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import plain_array
from tether.policies.picker import ShortlistRows
from tether.rounds.store.frame_columns import (
    column_type,
    is_polars,
    pandas_frame,
    polars_frame,
    rows_of,
)

NUMBER_ROWS, TEXT_ROWS, LIST_ROWS, FRAME_ROWS = "numbers", "text", "lists", "frame"
POLARS_ROWS = "polars frame"
NO_CONTENT = "nothing"
"""The kind of contexts that are only a number: there is nothing to store for a row."""
MAX_PADDED_BYTES = 1 << 26
"""Larger arrays of text are arrays of objects: otherwise all rows have the longest one's size."""


@dataclass(frozen=True)
class Codec:
    """How the rows of contexts or of actions are encoded: their kind, type, shape and columns."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, rows: Any) -> Codec:
        """The codec for these rows; for a number of contexts there is nothing to encode."""
        if isinstance(rows, int):
            return cls(NO_CONTENT)
        if hasattr(rows, "columns") and len(rows.shape) == 2:
            _check_names(name, list(rows.columns))
            columns = tuple((str(key), column_type(name, rows[key])) for key in rows.columns)
            return cls(POLARS_ROWS if is_polars(rows) else FRAME_ROWS, columns=columns)
        array = np.asarray(rows)
        array = plain_array(array) if array.ndim == 1 else array
        if array.dtype.kind in "biuf":
            return cls(NUMBER_ROWS, array.dtype.newbyteorder("<").str, array.shape[1:])
        if array.dtype.kind == "U" or _holds_only(array, str):
            return cls(TEXT_ROWS, shape=array.shape[1:])
        if array.ndim == 1 and _holds_only(array, (list, tuple, dict)):
            return cls(LIST_ROWS)
        raise TypeError(
            f"{name} must be numbers, text, lists or a pandas frame of these to be stored, got "
            f"dtype {array.dtype} (first value {next(iter(array.flat), None)!r})"
        )

    def widened(self) -> Codec:
        """The same with numbers of 64 bits: safe and optimized policies may differ in precision."""
        wide = {"f": "<f8", "i": "<i8", "u": "<u8"}
        if self.kind != NUMBER_ROWS:
            return self
        return Codec(self.kind, wide.get(np.dtype(self.dtype).kind, self.dtype), self.shape)

    def encode(self, name: str, rows: Any) -> list[bytes | None]:
        """One byte string per row; an error if the format differs from that of the first rows."""
        if self.kind == NO_CONTENT and isinstance(rows, int):
            return [None] * rows
        given = Codec.of(name, rows)
        if given.kind == NUMBER_ROWS == self.kind and given.shape == self.shape:
            if not np.can_cast(given.dtype, self.dtype, "safe"):
                raise TypeError(
                    f"{name} has dtype {np.dtype(given.dtype)}, which cannot be cast safely to "
                    f"{np.dtype(self.dtype)}, the dtype of the run's first rows"
                )
            raw = np.ascontiguousarray(rows, dtype=self.dtype).tobytes()
            width = len(raw) // len(rows)
            return [raw[k : k + width] for k in range(0, len(raw), width)] if width else []
        if given != self and given.widened() != self:
            raise TypeError(
                f"{name} must have the format of the run's first rows, {self.describe()}, got "
                f"{given.describe()}"
            )
        if self.is_frame:
            rows = rows_of(rows, [key for key, _ in self.columns])
        else:
            rows = np.asarray(rows).tolist()
        if self.kind == TEXT_ROWS and not self.shape:
            return [_encode_text(name, row) for row in rows]
        return [_encode_json(name, row) for row in rows]

    def decode(self, rows: Sequence[bytes | None]) -> Any:
        """Rows as they were passed in: an array, a frame, or their number."""
        if self.kind == NO_CONTENT:
            return len(rows)
        if self.kind == NUMBER_ROWS:
            content = rows.tobytes() if isinstance(rows, np.ndarray) else b"".join(rows)  # type: ignore[arg-type]
            flat = np.frombuffer(content, dtype=self.dtype)
            return flat.astype(flat.dtype.newbyteorder("=")).reshape(len(rows), *self.shape)
        raw = [bytes(row) for row in rows if row is not None]
        if self.kind == TEXT_ROWS and not self.shape:
            return text_array([row.decode() for row in raw], ())
        plain = [json.loads(row) for row in raw]
        if self.kind == TEXT_ROWS:
            return text_array(plain, self.shape)
        if self.kind == LIST_ROWS:
            array = np.empty(len(plain), dtype=object)
            array[:] = plain
            return array
        listed = zip(*plain, strict=True) if plain else ([] for _ in self.columns)
        columns = [name for name, _ in self.columns]
        return self.frame(dict(zip(columns, map(list, listed), strict=True)))

    @property
    def is_frame(self) -> bool:
        """Whether rows are those of a frame, of pandas or of polars."""
        return self.kind in (FRAME_ROWS, POLARS_ROWS)

    def frame(self, values: Mapping[str, Any]) -> Any:
        """The frame with these columns of plain values."""
        build = polars_frame if self.kind == POLARS_ROWS else pandas_frame
        return build(dict(self.columns), values)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "kind": self.kind,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "columns": [list(pair) for pair in self.columns],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Codec:
        """The inverse of `to_dict`."""
        columns = tuple((str(name), str(kind)) for name, kind in plain["columns"])
        return cls(plain["kind"], plain["dtype"], tuple(plain["shape"]), columns)

    def describe(self) -> str:
        """The format in words, for an error message."""
        if self.kind == NO_CONTENT:
            return "a number of actions without contexts"
        if self.kind == NUMBER_ROWS:
            return f"numbers ({np.dtype(self.dtype)}) of shape {self.shape} per row"
        if self.is_frame:
            library = "polars" if self.kind == POLARS_ROWS else "pandas"
            return f"a {library} frame with {dict(self.columns)}"
        return f"{self.kind} of shape {self.shape} per row"


@dataclass(frozen=True)
class RowCodecs:
    """The codecs of a run's rows; `candidates` is None without shortlists."""

    context: Codec
    action: Codec
    candidates: Codec | None = None

    @classmethod
    def of(cls, contexts: Any, actions: Any) -> RowCodecs:
        """The codecs for these rows."""
        action = Codec.of("actions", actions).widened()
        if not isinstance(contexts, ShortlistRows):
            return cls(Codec.of("contexts", contexts), action)
        candidates = Codec.of("candidates", listed_candidates(contexts.candidates)).widened()
        return cls(Codec.of("contexts", contexts.contexts), action, candidates)

    def encode(self, contexts: Any, actions: Any) -> dict[str, list[bytes | None]]:
        """The columns of the database; an error if the format differs from the first rows'."""
        columns = {"action": self.action.encode("actions", actions)}
        if self.candidates is not None:
            listed = listed_candidates(contexts.candidates)
            columns["candidates"] = self.candidates.encode("candidates", listed)
            contexts = contexts.contexts
        return columns | {"context": self.context.encode("contexts", contexts)}

    def decode_contexts(
        self, contexts: Sequence[bytes | None], candidates: Sequence[bytes | None]
    ) -> Any:
        """Contexts as they were passed in, with their candidates in a run on shortlists."""
        decoded = self.context.decode(contexts)
        if self.candidates is None:
            return decoded
        return ShortlistRows(decoded, unlisted_candidates(self.candidates.decode(candidates)))

    def to_dict(self) -> dict[str, Any]:
        """As entries of the stored settings."""
        codecs = {"contexts": self.context, "actions": self.action}
        if self.candidates is not None:
            codecs["candidates"] = self.candidates
        return {name: codec.to_dict() for name, codec in codecs.items()}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> RowCodecs:
        """From stored settings, which may include other entries."""
        candidates = settings.get("candidates")
        return cls(
            Codec.from_dict(settings["contexts"]),
            Codec.from_dict(settings["actions"]),
            None if candidates is None else Codec.from_dict(candidates),
        )


def text_array(rows: list[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Texts as an array; as one of objects where padding them to one length takes much memory."""
    flat: list[Any] = rows
    for _ in shape:
        flat = [each for row in flat for each in row]
    padded = 4 * len(flat) * max(map(len, flat), default=0)
    array = np.array(flat, dtype=np.str_ if padded <= MAX_PADDED_BYTES else object)
    return array.reshape(len(rows), *shape)


def listed_candidates(candidates: NDArray[Any]) -> NDArray[Any]:
    """Candidates that are lists or dictionaries as one list per row."""
    if candidates.dtype != object or candidates.ndim != 2 or _holds_only(candidates, str):
        return candidates
    lists = np.empty(len(candidates), dtype=object)
    lists[:] = candidates.tolist()
    return lists


def unlisted_candidates(candidates: NDArray[Any]) -> NDArray[Any]:
    """The inverse of `listed_candidates`."""
    if candidates.dtype != object or candidates.ndim != 1:
        return candidates
    table = np.empty((len(candidates), len(candidates[0])), dtype=object)
    for place, row in enumerate(candidates):
        table[place] = row
    return table


def _holds_only(array: Any, kinds: Any) -> bool:
    return array.dtype == object and all(isinstance(value, kinds) for value in array.flat)


def _check_names(name: str, columns: list[Any]) -> None:
    if not columns or len(set(columns)) < len(columns):
        raise TypeError(f"{name} must have columns with distinct names to be stored, got {columns}")
    for column in columns:
        if not isinstance(column, str):
            raise TypeError(
                f"{name} must have strings as column names to be stored, got {column!r}"
            )


def _encode_text(name: str, text: str) -> bytes:
    try:
        if text.endswith("\x00"):
            raise ValueError("it ends with a NUL character")
        return text.encode()
    except ValueError as error:
        raise ValueError(
            f"{name} holds the text {text!r}, which cannot be stored: {error}"
        ) from None


def _encode_json(name: str, row: Any) -> bytes:
    """JSON that reads back unchanged; tuples and keys that are not strings are refused."""
    try:
        text = json.dumps(row, ensure_ascii=False)
        unchanged = json.dumps(json.loads(text), ensure_ascii=False) == text
        if not (unchanged and _is_plain_json(row)):
            raise TypeError("it would not read back unchanged")
        return text.encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} holds {row!r}, which cannot be stored ({error}): use lists, string keys and "
            f"plain numbers"
        ) from None


def _is_plain_json(row: Any) -> bool:
    """Whether it contains no tuple, and no key other than a string."""
    if isinstance(row, dict):
        return all(isinstance(key, str) for key in row) and all(map(_is_plain_json, row.values()))
    if isinstance(row, list):
        return all(map(_is_plain_json, row))
    return not isinstance(row, tuple)
