"""What the rows of a controller hold: contexts, actions and scores, as columns of its events.

The format of contexts and actions is fixed by the first rows of a run and named in the header of
every event with rows, so that what is read is what was written: numbers of one type and shape,
text, lists, or the columns of a frame. `Contents` collects them from the events, and checks the
chain of all that it reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.arrays import Floats, Integers
from tether._core.contexts import labels
from tether.policies.kept_contexts import NOTHING, NUMBERS, Format, decode, encode, format_of
from tether.policies.picker import ShortlistRows
from tether.runs.body import Columns, read_header, unpack
from tether.runs.errors import TamperedError
from tether.runs.event_log import Event, follow, read_events
from tether.runs.state import NO_HEAD

BYTES_PER_EVENT = 1 << 22
"""Larger columns of scores and draws are stored as several events."""


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


def same_format(name: str, stored: Format | None, given: Format) -> Format:
    """The format of earlier rows; an error if these have another one."""
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
