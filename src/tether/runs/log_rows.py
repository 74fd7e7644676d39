"""What the rows of a controller hold: contexts, actions and scores, as columns of its events.

The format of contexts and actions is fixed by the first rows of a run and named in the header of
every event with rows, so that what is read is what was written: numbers of one type and shape,
text, lists, or the columns of a frame. `Contents` collects them from the events, and checks the
chain of all that it reads.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.arrays import Floats, Integers
from tether.policies.kept_contexts import NUMBERS, Format, decode, encode, format_of
from tether.policies.shortlist import ShortlistRows
from tether.runs.body import Columns, unpack
from tether.runs.errors import TamperedError
from tether.runs.event_log import Event, follow, read_events
from tether.runs.state import NO_HEAD

ROWS_PER_EVENT, BYTES_PER_EVENT = 50_000, 1 << 22
"""What is larger is stored as several events."""


# ---- the rows of a call -------------------------------------------------------------------------


def _parts(contexts: Any, actions: NDArray[Any]) -> dict[str, Any]:
    """What is stored of rows: actions, contexts and, on shortlists, candidates."""
    if isinstance(contexts, ShortlistRows):
        listed = {"candidate": contexts.candidates, "context": contexts.contexts}
        return {"action": actions, **listed}
    return {"action": actions, "context": contexts}


def same_formats(stored: Format | None, contexts: Any, actions: NDArray[Any]) -> Format:
    """The formats of the run's first rows, or of these; an error if these have others."""
    found = Format()
    for key, rows in _parts(contexts, actions).items():
        given = format_of(f"{key}s", rows, wide=key != "context")
        found[key] = first = given if stored is None else stored[key]
        alike = first["kind"] == given["kind"] == NUMBERS and first["shape"] == given["shape"]
        if first != given and not (alike and np.can_cast(given["dtype"], first["dtype"], "safe")):
            raise TypeError(
                f"{key}s must have the format of the run's first rows, {first}, got {given}"
            )
    return found


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


class Contents:
    """Contexts, actions, scores and draws of a run, read from its events in order."""

    def __init__(self) -> None:
        self.seq, self.head = 0, NO_HEAD
        self.formats: Format | None = None
        self._pieces: dict[str, dict[Any, list[NDArray[Any]]]] = {
            kind: {} for kind in ("rows", "scores", "draws")
        }
        self._waiting: dict[int, Event] = {}  # scores and draws for a round that may never begin

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
            self.add(event.kind, *unpack(event.body))
        elif event.kind in self._pieces:
            self._waiting[event.seq] = event
        elif event.kind == "round":
            for seq in unpack(event.body)[0]["decision"].get("scored", ()):
                self.add(self._waiting[seq].kind, *unpack(self._waiting[seq].body))
            self._waiting = {}

    def add(self, kind: str, header: dict[str, Any], columns: Columns) -> None:
        """Take in what an event has, or is going to have."""
        held: dict[Any, NDArray[Any]] = {**columns}
        if kind == "rows":
            self.formats = header["formats"]
        elif kind == "scores":  # those of a round come before its draws
            name, policy, first = header["name"], header["policy"], header["first"]
            if first != self.scored(name, policy):
                raise ValueError(f"scores {name!r} of policy {policy} begin at row {first}")
            self._pieces["draws"], held = {}, {(name, policy): columns["values"]}
        for key, column in held.items():
            self._pieces[kind].setdefault(key, []).append(column)

    def rows(self, index: Integers) -> tuple[Any, NDArray[Any]]:
        """The contexts and actions of some rows."""
        assert self.formats is not None
        columns = {
            name: _whole(pieces)[index]
            for name, pieces in self._pieces["rows"].items()
            if name.partition("/")[0] in self.formats
        }
        return decode_rows(columns, self.formats, len(index))

    def own_scores(self, name: str, index: Integers) -> Floats:
        """The scores of actions that were stored with them; NaN in a ramp, which has none."""
        pieces = self._pieces["rows"].get(name)
        return np.full(len(index), np.nan) if pieces is None else _whole(pieces)[index]

    def scored(self, name: str, policy: int) -> int:
        """How many calibration rows a policy has scores of."""
        return sum(map(len, self._pieces["scores"].get((name, policy), ())))

    def scores(self, name: str, policy: int, count: int) -> NDArray[Any]:
        """The scores of a policy at the first calibration rows."""
        return _whole(self._pieces["scores"][name, policy])[:count]

    @property
    def draws(self) -> Columns | None:
        """The draws for the round that was scored last; None if there are none."""
        return {name: _whole(each) for name, each in self._pieces["draws"].items()} or None

    def copy(self) -> Contents:
        """The same, to which scores and draws can be added before they are stored."""
        other = copy.copy(self)
        scores = {key: [*pieces] for key, pieces in self._pieces["scores"].items()}
        other._pieces = {**self._pieces, "scores": scores, "draws": {}}
        return other


def _whole(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    if len(pieces) > 1:
        pieces[:] = [np.concatenate(pieces)]
    return pieces[0]


def cut(columns: Columns) -> list[tuple[int, Columns]]:
    """Columns in pieces that fit in an event, each with the row where it begins."""
    count = len(next(iter(columns.values()), ()))
    width = sum(column.nbytes for column in columns.values()) // max(count, 1)
    size = max(1, min(ROWS_PER_EVENT, BYTES_PER_EVENT // max(width, 1)))
    return [
        (start, {name: column[start : start + size] for name, column in columns.items()})
        for start in range(0, count, size)
    ]
