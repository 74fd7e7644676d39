"""What the rows of a controller hold: contexts, actions and scores, as columns of its events.

The format of contexts and actions is fixed by the first rows of a run and named in the header of
every event with rows, so that what is read is what was written: numbers of one type and shape,
text, lists, or the columns of a frame. `Contents` collects them from the events, and checks the
chain of all that it reads.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.arrays import Floats, Integers, plain_array
from tether._core.contexts import labels
from tether.policies.picker import ShortlistRows
from tether.runs.body import read_header, unpack
from tether.runs.errors import TamperedError
from tether.runs.event_log import NO_HEAD, Event, read_events

Format = dict[str, Any]
"""How contexts, candidates or actions are stored: a kind, and what else it takes to read them."""
NOTHING, NUMBERS, TEXT, LISTS, FRAME = "nothing", "numbers", "text", "lists", "frame"
MAX_PADDED_BYTES = 1 << 26
"""Larger arrays of text are arrays of objects: otherwise all rows have the longest one's size."""
BYTES_PER_EVENT = 1 << 22
"""Larger columns of scores and draws are stored as several events."""
WIDE = {"f": "<f8", "i": "<i8", "u": "<u8"}
"""Actions are stored with 64 bits: safe and optimized policies may differ in precision."""


# ---- one format ---------------------------------------------------------------------------------


def format_of(name: str, rows: Any, *, wide: bool = False) -> Format:
    """The format of contexts, candidates or actions; an error if they cannot be stored."""
    if isinstance(rows, int):
        return {"kind": NOTHING}
    if hasattr(rows, "columns") and len(rows.shape) == 2:
        library = "pandas" if hasattr(rows, "iloc") else "polars"
        names = list(rows.columns)
        if not all(isinstance(each, str) for each in names) or len(set(names)) < len(names):
            raise TypeError(f"{name} must have columns with distinct text as names, got {names}")
        columns = {key: _column_format(f"{name}[{key!r}]", rows[key]) for key in names}
        return {"kind": FRAME, "library": library, "columns": columns}
    array = np.asarray(rows)
    array = plain_array(array) if array.ndim == 1 else array
    if array.dtype.kind in "biuf":
        kind = array.dtype.newbyteorder("<").str
        kind = WIDE.get(array.dtype.kind, kind) if wide else kind
        return {"kind": NUMBERS, "dtype": kind, "shape": list(array.shape[1:])}
    if array.dtype.kind == "U" or _holds_only(array, str):
        return {"kind": TEXT, "shape": list(array.shape[1:])}
    if _holds_only(array, (list, dict)):
        return {"kind": LISTS, "shape": list(array.shape[1:])}
    raise TypeError(
        f"{name} must be numbers, text, lists or a frame of numbers and text to be stored, got "
        f"dtype {array.dtype} (first value {next(iter(array.flat), None)!r:.80})"
    )


def _column_format(name: str, column: Any) -> str | list[str]:
    """The type of a frame's column; the categories, where it has some."""
    dtype = column.dtype
    if hasattr(dtype, "categories") and type(dtype).__name__ != "Categorical":
        return [str(each) for each in dtype.categories]
    values = plain_array(column.to_numpy())
    if values.dtype.kind in "biuf":
        return values.dtype.newbyteorder("<").str
    if values.dtype.kind != "U":
        raise TypeError(f"{name} must hold numbers or text to be stored, got dtype {dtype}")
    return TEXT


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


def encode(name: str, rows: Any, format_: Format) -> dict[str, NDArray[Any]]:
    """Rows as columns whose names begin with `name`."""
    kind = format_["kind"]
    if kind == NOTHING:
        return {}
    if kind == FRAME:
        columns = {}
        for key, held in format_["columns"].items():
            values = plain_array(rows[key].to_numpy())
            columns[f"{name}/{key}"] = values.astype(held) if isinstance(held, str) else values
            if held == TEXT or isinstance(held, list):
                columns[f"{name}/{key}"] = values.astype(object)
        return columns
    array = np.asarray(rows)
    if kind == NUMBERS:
        return {name: array.astype(format_["dtype"])}
    if kind == TEXT:
        return {name: array.astype(object)}
    texts = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        texts[place] = _to_json(name, array[place])
    return {name: texts}


def decode(name: str, columns: dict[str, NDArray[Any]], format_: Format, count: int) -> Any:
    """Undo `encode`."""
    kind = format_["kind"]
    if kind == NOTHING:
        return count
    if kind == FRAME:
        held = {key: columns[f"{name}/{key}"] for key in format_["columns"]}
        return _frame(format_, held)
    values = columns[name]
    if kind == NUMBERS:
        return values.astype(values.dtype.newbyteorder("="))
    if kind == TEXT:
        return values.astype(object) if values.nbytes > MAX_PADDED_BYTES else values
    lists = np.empty(values.shape, dtype=object)
    for place in np.ndindex(values.shape):
        lists[place] = json.loads(str(values[place]))
    return lists


def _frame(format_: Format, held: dict[str, NDArray[Any]]) -> Any:
    if format_["library"] == "polars":
        import polars as pl

        return pl.DataFrame(
            [
                pl.Series(key, values.tolist(), dtype=pl.Enum(kind))
                if isinstance(kind := format_["columns"][key], list)
                else pl.Series(key, values.tolist() if kind == TEXT else values)
                for key, values in held.items()
            ]
        )
    import pandas as pd

    frame = pd.DataFrame(
        {
            key: values.astype(object) if values.dtype.kind == "U" else values
            for key, values in held.items()
        }
    )
    kinds = {
        key: pd.CategoricalDtype(kind)
        for key, kind in format_["columns"].items()
        if isinstance(kind, list)
    }
    return frame.astype(kinds)


def _holds_only(array: NDArray[Any], kinds: Any) -> bool:
    return array.dtype == object and all(isinstance(value, kinds) for value in array.flat)


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


def formats_of(contexts: Any, actions: NDArray[Any]) -> Format:
    """The formats of contexts, actions and, on shortlists, candidates."""
    formats: Format = {"action": format_of("actions", actions, wide=True)}
    if isinstance(contexts, ShortlistRows):
        formats["candidate"] = format_of("candidates", contexts.candidates, wide=True)
        contexts = contexts.contexts
    return {**formats, "context": format_of("contexts", contexts)}


def same_formats(stored: Format | None, given: Format) -> Format:
    """The formats of the run, as `same_format`."""
    if stored is None or stored == given:
        return given
    words = {"action": "actions", "candidate": "candidates", "context": "contexts"}
    return {key: same_format(words[key], stored.get(key), given[key]) for key in given}


def encode_rows(contexts: Any, actions: NDArray[Any], formats: Format) -> dict[str, NDArray[Any]]:
    """The columns of contexts and actions."""
    columns = encode("action", actions, formats["action"])
    if isinstance(contexts, ShortlistRows):
        columns |= encode("candidate", contexts.candidates, formats["candidate"])
        contexts = contexts.contexts
    return columns | encode("context", contexts, formats["context"])


def decode_rows(
    columns: dict[str, NDArray[Any]], formats: Format, count: int
) -> tuple[Any, NDArray[Any]]:
    """Contexts and actions as they were passed in."""
    contexts = decode("context", columns, formats["context"], count)
    if "candidate" in formats:
        candidates = decode("candidate", columns, formats["candidate"], count)
        contexts = ShortlistRows(contexts, candidates)
    return contexts, decode("action", columns, formats["action"], count)


# ---- all rows of a run --------------------------------------------------------------------------

SCORES = ("log_safe", "log_optimized", "log_prob")
"""What is stored of each action when it is taken; NaN where it is not known."""


class Contents:
    """Contexts, actions, scores and draws of a run, read from its events in order."""

    def __init__(self) -> None:
        self.seq, self.head, self.size = 0, NO_HEAD, 0
        self.formats: Format | None = None
        self._pieces: dict[str, list[NDArray[Any]]] = {}
        self._scores: dict[tuple[str, int], list[NDArray[Any]]] = {}
        self._draws: dict[str, list[NDArray[Any]]] = {}
        self._pending: list[tuple[dict[str, Any], dict[str, NDArray[Any]]]] = []

    def read(self, connection: sql.Connection, until: int, head: bytes) -> None:
        """Read events up to a number, at which the chain must have this hash."""
        for event in read_events(connection, self.seq, until):
            if not event.follows(self.seq, self.head):
                raise TamperedError(f"event {event.seq} is not as it was written")
            self.take(event)
        if self.head != head:
            raise TamperedError(f"event {until} is not as it was written")

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
            self._take_round(read_header(event.body))

    def _take_round(self, header: dict[str, Any]) -> None:
        """Use the scores and draws of the attempt that began the round; others were in vain."""
        attempt, self._draws = header["decision"].get("attempt"), {}
        for held, columns in self._pending:
            if held["attempt"] == attempt:
                self._add(held, columns)
        self._pending = [each for each in self._pending if each[0]["unit"] > header["number"]]

    def attempted(self, attempt: str) -> Contents:
        """The same with the scores and draws of an attempt to begin a round."""
        other = self.copy()
        for held, columns in self._pending:
            if held["attempt"] == attempt:
                other._add(held, columns)
        return other

    def _add(self, header: dict[str, Any], columns: dict[str, NDArray[Any]]) -> None:
        if "name" in header:
            self.add_scores(header["name"], header["policy"], header["first"], columns["values"])
        else:
            self.add_draws(columns)

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

    def add_draws(self, columns: dict[str, NDArray[Any]]) -> None:
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
    def draws(self) -> dict[str, NDArray[Any]] | None:
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


def cut(columns: dict[str, NDArray[Any]]) -> list[tuple[int, dict[str, NDArray[Any]]]]:
    """Columns in pieces that fit in an event, each with the row where it begins."""
    count = len(next(iter(columns.values())))
    width = sum(column.nbytes for column in columns.values()) // max(count, 1)
    size = max(1, min(count, BYTES_PER_EVENT // max(width, 1)))
    return [
        (start, {name: column[start : start + size] for name, column in columns.items()})
        for start in range(0, count, size)
    ]
