"""Pieces: scores of rows under the policies of rounds, as they are stored when a round begins.

A round's policy scores all rows that there are when the round begins, and every later round adds
its new rows under all policies before it. So a round stores a few pieces, however many came before.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.arrays import Floats
from tether.rounds.errors import TamperedError
from tether.rounds.store import chain, schema
from tether.rounds.store.followed_lane import ENTRIES_PER_QUERY, Place, check_links, read_entries
from tether.rounds.store.lanes import SCORES_LANE, read_lane
from tether.rounds.store.writer import COLUMN

MAX_BLOB_BYTES = 2**20
"""How many bytes of scores go into one database row at most."""


@dataclass(frozen=True)
class Piece:
    """Scores of consecutive rows under some policies, written when round `round` began.

    `numbers` are the rounds of these policies, ascending. `values` has the axes policy, row and,
    where there are several values per row, value; None where it is in the store alone.
    """

    round: int
    name: str
    start: int
    stop: int
    numbers: tuple[int, ...]
    digest: bytes = b""
    values: Floats | None = None

    def overlaps(self, numbers: set[int], start: int, stop: int) -> bool:
        """Whether it has scores of one of these policies at one of these rows."""
        if stop <= self.start or self.stop <= start:
            return False
        if max(numbers) < self.numbers[0] or self.numbers[-1] < min(numbers):
            return False
        return not numbers.isdisjoint(self.numbers)


class PieceIndex:
    """Which pieces a store has, each checked against the hash chain when it is read."""

    def __init__(self) -> None:
        self._place = Place()
        self.pieces: list[Piece] = []

    def refresh(self, connection: sql.Connection) -> None:
        """Learn of pieces that were written since the last call."""
        new: list[Piece] = []
        numbers = _read_numbers(connection, self.pieces[-1].round if self.pieces else 0)
        place = self._place
        while entries := read_entries(connection, SCORES_LANE, place.entry, ENTRIES_PER_QUERY):
            place = Place(entries[-1]["number"], check_links(SCORES_LANE, place, entries))
            new += [_indexed(entry, numbers) for entry in entries if entry["kind"] == COLUMN]
        reached = read_lane(connection, SCORES_LANE)
        if (reached.last_entry, reached.head) != (place.entry, place.head):
            raise TamperedError("the end of the hash chain of scores was removed or added")
        self._place = place
        self.pieces += new


def read_scores(
    connection: sql.Connection,
    pieces: Iterable[Piece],
    numbers: Iterable[int],
    start: int,
    stop: int,
    width: int | None = None,
) -> dict[int, Floats]:
    """Scores of rows from `start` to before `stop` under some policies; NaN where there are none.

    The pieces are those of one name. One array per policy, with `width` values per row.
    """
    wanted = set(numbers)
    if not wanted:
        return {}
    shape = (stop - start,) if width is None else (stop - start, width)
    found = {number: np.full(shape, np.nan) for number in wanted}
    for piece in pieces:
        if not piece.overlaps(wanted, start, stop):
            continue
        values = read_values(connection, piece) if piece.values is None else piece.values
        values = values.reshape(len(piece.numbers), piece.stop - piece.start, *shape[1:])
        first, last = max(start, piece.start), min(stop, piece.stop)
        for place, number in enumerate(piece.numbers):
            if number in wanted:
                part = values[place, first - piece.start : last - piece.start]
                found[number][first - start : last - start] = part
    return found


def read_values(connection: sql.Connection, piece: Piece) -> Floats:
    """The values of a piece, as one flat array."""
    table = schema.columns
    query = sql.select(table.c.numbers, table.c["values"]).where(
        table.c.round == piece.round,
        table.c.name == piece.name,
        table.c.start == piece.start,
        table.c.policy == piece.numbers[0],
    )
    row = connection.execute(query).one_or_none()
    if row is None or chain.digest_piece(row.numbers, bytes(row[1])) != piece.digest:
        raise TamperedError(
            f"scores {piece.name!r} of round {piece.round} from row {piece.start} on: changed or "
            f"removed after they were written"
        )
    return np.frombuffer(row[1], dtype="<f8").astype(np.float64, copy=False)


def piece_rows(
    number: int, name: str, start: int, numbers: Iterable[int], values: NDArray[Any]
) -> Iterator[dict[str, Any]]:
    """A piece as rows of the database, several if it is large.

    The axes of the values are policy, row and possibly value.
    """
    array, numbers = np.ascontiguousarray(values, dtype="<f8"), list(numbers)
    rows, text = array.shape[1], json.dumps(numbers)
    step = _rows_per_piece(array)
    for first in range(0, rows, step):
        part = array[:, first : first + step]
        yield {
            "round": number,
            "name": name,
            "start": start + first,
            "policy": numbers[0],
            "count": part.shape[1],
            "numbers": text,
            "values": part.tobytes(),
        }


def _rows_per_piece(values: NDArray[Any]) -> int:
    """How many rows fit into one database row."""
    policies, _, *others = values.shape
    row_bytes: int = policies * math.prod(others) * values.itemsize
    return max(1, MAX_BLOB_BYTES // max(1, row_bytes))


def _read_numbers(connection: sql.Connection, after: int) -> dict[tuple[Any, ...], str]:
    """The policies of each piece that was written from a round on."""
    table = schema.columns
    query = sql.select(*table.primary_key, table.c.numbers).where(table.c.round >= after)
    return {tuple(row[:-1]): row.numbers for row in connection.execute(query)}


def _indexed(entry: dict[str, Any], numbers: dict[tuple[Any, ...], str]) -> Piece:
    key = (entry["round"], entry["note"], entry["first"])
    text = numbers.get((*key, entry["served"]))
    if text is None:
        raise TamperedError(
            f"scores {key[1]!r} of round {key[0]} from row {key[2]} on: removed after they were "
            f"written"
        )
    return Piece(*key, entry["last"] + 1, _parse_numbers(text), entry["digest"])


def _parse_numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(map(int, json.loads(text)))
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or list(numbers) != sorted(set(numbers)):
        raise TamperedError(f"scores of the policies {text!r} were not written by tether")
    return numbers
