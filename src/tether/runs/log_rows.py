"""What the rows of a controller hold: contexts, actions and scores, as columns of its events.

The format of contexts and actions is fixed by the first rows of a run and named in the header of
every event with rows, so that what is read is what was written: numbers of one type and shape,
text, lists, or the columns of a frame. `Contents` collects them from the events, and checks the
chain of all that it reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.arrays import Floats, Integers, plain_array
from tether._core.contexts import labels
from tether.policies.picker import ShortlistRows
from tether.runs.body import Columns, read_header, unpack
from tether.runs.errors import TamperedError
from tether.runs.event_log import Event, follow, read_events
from tether.runs.state import NO_HEAD

Format = dict[str, Any]
"""How contexts, candidates or actions are stored: a kind, and what else it takes to read them."""
NOTHING, NUMBERS, TEXT, LISTS, FRAME = "nothing", "numbers", "text", "lists", "frame"
CATEGORIES = "categories"
MAX_PADDED_BYTES = 1 << 26
"""Larger arrays of text are arrays of objects: otherwise all rows have the longest one's size."""
BYTES_PER_EVENT = 1 << 22
"""Larger columns of scores and draws are stored as several events."""
WIDE = {"f": "<f8", "i": "<i8", "u": "<u8"}
"""Actions are stored with 64 bits: safe and optimized policies may differ in precision."""


# ---- formats ------------------------------------------------------------------------------------


def format_of(name: str, rows: Any, *, wide: bool = False) -> Format:
    """The format of contexts, candidates or actions; an error if they cannot be stored."""
    if isinstance(rows, int):
        return {"kind": NOTHING}
    if hasattr(rows, "columns") and len(rows.shape) == 2:
        names = list(rows.columns)
        if not all(isinstance(each, str) for each in names) or len(set(names)) < len(names):
            raise TypeError(f"{name} must have columns with distinct text as names, got {names}")
        columns = {key: _column_format(f"{name}[{key!r}]", rows[key]) for key in names}
        library = "pandas" if hasattr(rows, "iloc") else "polars"
        return {"kind": FRAME, "library": library, "columns": columns}
    array = np.asarray(rows)
    array = plain_array(array) if array.ndim == 1 else array
    shape = list(array.shape[1:])
    if array.dtype.kind in "biuf":
        kind = array.dtype.newbyteorder("<").str
        kind = WIDE.get(array.dtype.kind, kind) if wide else kind
        return {"kind": NUMBERS, "dtype": kind, "shape": shape}
    if array.dtype.kind == "U" or _holds_only(array, str):
        return {"kind": TEXT, "shape": shape}
    if _holds_only(array, (list, dict)):
        return {"kind": LISTS, "shape": shape}
    raise TypeError(
        f"{name} must be numbers, text, lists or a frame of numbers and text to be stored, got "
        f"dtype {array.dtype} (first value {next(iter(array.flat), None)!r:.80})"
    )


def _column_format(name: str, column: Any) -> Format:
    """The format of a frame's column; with its categories, where it has some."""
    dtype = column.dtype
    if hasattr(dtype, "categories") and type(dtype).__name__ != "Categorical":
        return {"kind": CATEGORIES, "categories": [str(each) for each in dtype.categories]}
    return format_of(name, column.to_numpy())


def same_format(name: str, stored: Format | None, given: Format) -> Format:
    """The format of the run; an error if these rows have another one."""
    if stored is None or stored == given:
        return given
    alike = stored["kind"] == given["kind"] == NUMBERS and stored["shape"] == given["shape"]
    if alike and np.can_cast(given["dtype"], stored["dtype"], "safe"):
        return stored
    raise TypeError(
        f"{name} must have the format of the run's first rows, {_in_words(stored)}, got "
        f"{_in_words(given)}"
    )


def _in_words(format_: Format) -> str:
    if format_["kind"] == NOTHING:
        return "a number of actions without contexts"
    details = {key: value for key, value in format_.items() if key != "kind" and value}
    return f"{format_['kind']} {details}" if details else str(format_["kind"])


def encode(name: str, rows: Any, format_: Format) -> Columns:
    """Rows as columns whose names begin with `name`."""
    kind = format_["kind"]
    if kind == NOTHING:
        return {}
    if kind == FRAME:
        columns = Columns()
        for key, held in format_["columns"].items():
            columns |= encode(f"{name}/{key}", plain_array(rows[key].to_numpy()), held)
        return columns
    array = np.asarray(rows)
    if kind == NUMBERS:
        return {name: array.astype(format_["dtype"])}
    if kind == LISTS:
        return {name: _each(array, lambda value: _to_json(name, value))}
    return {name: array.astype(object)}


def decode(name: str, columns: Columns, format_: Format, count: int) -> Any:
    """Undo `encode`."""
    kind = format_["kind"]
    if kind == NOTHING:
        return count
    if kind == FRAME:
        formats = format_["columns"]
        held = {key: decode(f"{name}/{key}", columns, formats[key], count) for key in formats}
        return (_polars if format_["library"] == "polars" else _pandas)(held, formats)
    values = columns[name]
    if kind == NUMBERS:
        return values.astype(values.dtype.newbyteorder("="))
    if kind == LISTS:
        return _each(values, lambda value: json.loads(str(value)))
    return values.astype(object) if values.nbytes > MAX_PADDED_BYTES else values


def _polars(held: Columns, formats: dict[str, Format]) -> Any:
    import polars as pl

    def series(key: str, values: NDArray[Any]) -> Any:
        if "categories" in formats[key]:
            return pl.Series(key, values.tolist(), dtype=pl.Enum(formats[key]["categories"]))
        return pl.Series(key, values if formats[key]["kind"] == NUMBERS else values.tolist())

    return pl.DataFrame([series(key, values) for key, values in held.items()])


def _pandas(held: Columns, formats: dict[str, Format]) -> Any:
    import pandas as pd

    plain = {
        key: values.astype(object) if values.dtype.kind == "U" else values
        for key, values in held.items()
    }
    kinds = {key: each["categories"] for key, each in formats.items() if "categories" in each}
    return pd.DataFrame(plain).astype({key: pd.CategoricalDtype(kinds[key]) for key in kinds})


def _holds_only(array: NDArray[Any], kinds: Any) -> bool:
    return array.dtype == object and all(isinstance(value, kinds) for value in array.flat)


def _each(array: NDArray[Any], change: Callable[[Any], Any]) -> NDArray[Any]:
    """An array of objects, one for each value."""
    changed = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        changed[place] = change(array[place])
    return changed


def _to_json(name: str, value: Any) -> str:
    """JSON that reads back unchanged."""
    try:
        text = json.dumps(value, sort_keys=False)
        if json.loads(text) != value:
            raise TypeError("it would not read back unchanged")
        return text
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} holds {value!r:.80}, which cannot be stored ({error}): use lists, string keys "
            f"and plain numbers"
        ) from None


# ---- the rows of a call -------------------------------------------------------------------------


def _parts(contexts: Any, actions: NDArray[Any]) -> dict[str, Any]:
    """What is stored of rows: actions, contexts and, on shortlists, candidates."""
    if isinstance(contexts, ShortlistRows):
        listed = {"candidate": contexts.candidates, "context": contexts.contexts}
        return {"action": actions, **listed}
    return {"action": actions, "context": contexts}


def formats_of(contexts: Any, actions: NDArray[Any]) -> Format:
    """The formats of the parts of rows."""
    return {
        key: format_of(f"{key}s", rows, wide=key != "context")
        for key, rows in _parts(contexts, actions).items()
    }


def same_formats(stored: Format | None, given: Format) -> Format:
    """The formats of the run, as `same_format`."""
    if stored is None or stored == given:
        return given
    return {key: same_format(f"{key}s", stored.get(key), given[key]) for key in given}


def encode_rows(contexts: Any, actions: NDArray[Any], formats: Format) -> Columns:
    """The columns of contexts and actions."""
    columns = Columns()
    for key, rows in _parts(contexts, actions).items():
        columns |= encode(key, rows, formats[key])
    return columns


def decode_rows(columns: Columns, formats: Format, count: int) -> tuple[Any, NDArray[Any]]:
    """Contexts and actions as they were passed in."""
    held = {key: decode(key, columns, each, count) for key, each in formats.items()}
    contexts = held["context"]
    if "candidate" in held:
        contexts = ShortlistRows(contexts, held["candidate"])
    return contexts, held["action"]


# ---- all rows of a run --------------------------------------------------------------------------

SCORES = ("log_safe", "log_prob")
"""What is stored of each action when it is taken; NaN where it is not known."""


class Contents:
    """Contexts, actions, scores and draws of a run, read from its events in order."""

    def __init__(self) -> None:
        self.seq, self.head, self.size = 0, NO_HEAD, 0
        self.formats: Format | None = None
        self._pieces: dict[str, list[NDArray[Any]]] = {}
        self._scores: dict[tuple[str, int], list[NDArray[Any]]] = {}
        self._draws: dict[str, list[NDArray[Any]]] = {}
        self._pending: list[tuple[dict[str, Any], Columns]] = []

    def read(self, connection: sql.Connection, until: int, head: bytes) -> None:
        """Read events up to a number, at which the chain must have this hash."""
        for event in follow(read_events(connection, self.seq, until), self.seq, self.head):
            self.take(event)
        if self.head != head:
            raise TamperedError(f"event {until} of the run is not as written")

    def take(self, event: Event) -> None:
        """Take in one event."""
        self.seq, self.head = event.seq, event.head
        if event.kind == "rows":
            header, columns = unpack(event.body)
            count = len(columns["arm"])
            self.formats = header["formats"]
            for name in SCORES:
                columns.setdefault(name, np.full(count, np.nan))
            for name, column in columns.items():
                self._pieces.setdefault(name, []).append(column)
            self.size += count
        elif event.kind in ("scores", "draws"):
            self._pending.append(unpack(event.body))
        elif event.kind == "round":
            self._take_round(read_header(event.body)["decision"].get("attempt"))

    def _take_round(self, attempt: str | None) -> None:
        """Use the scores and draws of the attempt that began the round; others were in vain."""
        self._draws = {}
        for held, columns in self._pending:
            if held["attempt"] != attempt:
                continue
            if "name" in held:
                self.add_scores(held["name"], held["policy"], held["first"], columns["values"])
            else:
                self.add_draws(columns)
        self._pending = []

    def rows(self, index: Integers) -> tuple[Any, NDArray[Any]]:
        """The contexts and actions of some rows."""
        assert self.formats is not None
        columns = {name: self._whole(self._pieces, name)[index] for name in self._content_names()}
        return decode_rows(columns, self.formats, len(index))

    def labels(self, index: Integers) -> Integers | None:
        """Labels of the contexts of some rows; None where there are no contexts."""
        contexts, _ = self.rows(index)
        return None if isinstance(contexts, int) else labels(contexts)

    def own_scores(self, name: str, index: Integers) -> Floats:
        """The scores of actions that were stored with them."""
        return self._whole(self._pieces, name)[index]

    def scored(self, name: str, policy: int) -> int:
        """How many calibration rows a policy has scores of."""
        return sum(map(len, self._scores.get((name, policy), ())))

    def scores(self, name: str, policy: int, count: int) -> NDArray[Any]:
        """The scores of a policy at the first calibration rows."""
        return self._whole(self._scores, (name, policy))[:count]

    def add_scores(self, name: str, policy: int, first: int, values: NDArray[Any]) -> None:
        """Add scores of calibration rows from `first` on."""
        if first != self.scored(name, policy):
            raise ValueError(f"scores {name!r} of policy {policy} begin at row {first}")
        self._scores.setdefault((name, policy), []).append(values)

    def add_draws(self, columns: Columns) -> None:
        """Add draws for the round that begins."""
        for name, column in columns.items():
            self._draws.setdefault(name, []).append(column)

    def copy(self) -> Contents:
        """The same, to which scores and draws can be added before they are stored."""
        other = Contents()
        other.__dict__.update(self.__dict__)
        other._scores = {key: list(pieces) for key, pieces in self._scores.items()}
        other._draws = {}
        return other

    @property
    def draws(self) -> Columns | None:
        """The draws for the last round; None if there are none."""
        held = self._draws
        return {name: self._whole(held, name) for name in held} if held else None

    def _content_names(self) -> list[str]:
        return [
            name
            for name in self._pieces
            if name.partition("/")[0] in ("context", "action", "candidate")
        ]

    @staticmethod
    def _whole(pieces: dict[Any, list[NDArray[Any]]], key: Any) -> NDArray[Any]:
        held = pieces[key]
        if len(held) > 1:
            pieces[key] = held = [np.concatenate(held)]
        return held[0]


def cut(columns: Columns, size: int | None = None) -> list[tuple[int, Columns]]:
    """Columns in pieces that fit in an event, each with the row where it begins."""
    count = len(next(iter(columns.values()), ()))
    width = sum(column.nbytes for column in columns.values()) // max(count, 1)
    size = size or max(1, min(count, BYTES_PER_EVENT // max(width, 1)))
    return [
        (start, {name: column[start : start + size] for name, column in columns.items()})
        for start in range(0, count, size)
    ]
