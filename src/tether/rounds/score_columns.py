"""Scores of the calibration rows, one column per policy: computed once, and kept in the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether._core.arrays import Floats
from tether.rounds.errors import StoreError
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.score_pieces import (
    Piece,
    PieceIndex,
    piece_rows,
    read_scores,
    read_values,
)
from tether.rounds.store.writer import Writer

DRAWS = "draws_"
"""How the names of pieces begin that hold scores of proposals instead of rows."""


@dataclass
class _Columns:
    """The columns of one name: how many rows each has, and their pieces in order."""

    lengths: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    pieces: list[Piece] = field(default_factory=list)
    unsaved: list[Piece] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        for number in piece.numbers:
            self.lengths[number] = max(self.lengths[number], piece.stop)


class ScoreColumns:
    """Scores of the calibration rows: one value, or one row of a table, each, by name and round.

    New values stay in memory until `save` writes them in the transaction that begins the round.
    Stored ones are read again when they are asked for.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._index = PieceIndex()
        self._learned = 0  # how many of its pieces are in the columns
        self._columns: dict[str, _Columns] = defaultdict(_Columns)

    def refresh(self) -> None:
        """Learn of scores that were stored since the last call, also by other processes."""
        with self._store.reading(patience=PATIENCE_FOR_ROWS) as connection:
            self._index.refresh(connection)  # it may succeed and the transaction fail nevertheless
        new = self._index.pieces[self._learned :]
        self._learned += len(new)
        for piece in new:
            if not piece.name.startswith(DRAWS):
                columns = self._columns[piece.name]
                columns.add(piece)
                columns.pieces.append(piece)

    def length(self, name: str, number: int) -> int:
        """How many rows have a score under the policy of a round."""
        return self._columns[name].lengths[number]

    def complete(
        self,
        name: str,
        numbers: Collection[int],
        stop: int,
        compute: Callable[[int, slice], Floats],
    ) -> None:
        """Compute the scores up to row `stop` that policies lack."""
        for number in numbers:
            start = self.length(name, number)
            if start < stop:
                values = np.asarray(compute(number, slice(start, stop)), dtype=np.float64)
                self._add(name, number, start, values)

    def _add(self, name: str, number: int, start: int, values: Floats) -> None:
        """Keep new scores of the rows from `start` on."""
        piece = Piece(0, name, start, start + len(values), (number,), values=values[None])
        self._columns[name].add(piece)
        self._columns[name].unsaved.append(piece)

    def read(
        self, name: str, numbers: Collection[int], start: int, stop: int, width: int | None = None
    ) -> dict[int, Floats]:
        """Scores of the rows from `start` to before `stop`, by round."""
        columns = self._columns[name]
        with self._store.reading(patience=PATIENCE_FOR_ROWS) as connection:
            pieces = [*columns.pieces, *columns.unsaved]
            found = read_scores(connection, pieces, numbers, start, stop, width)
        for number, values in found.items():
            if np.isnan(values[: max(0, self.length(name, number) - start)]).any():
                raise StoreError(f"scores {name!r} of round {number} are missing in the store")
        return found

    def draws(self, number: int) -> dict[str, Floats]:
        """The stored draws of a round by name, each row after row in one array."""
        found: dict[str, list[Floats]] = defaultdict(list)
        with self._store.reading(patience=PATIENCE_FOR_ROWS) as connection:
            for piece in sorted(self._index.pieces, key=lambda each: each.start):
                if piece.round == number and piece.name.startswith(DRAWS):
                    found[piece.name[len(DRAWS) :]].append(read_values(connection, piece))
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def save(self, writer: Writer, number: int) -> None:
        """Write new values; call `mark_saved` after the commit, `forget` if it fails."""
        for name, columns in self._columns.items():
            for start, group in _grouped(columns.unsaved):
                values = np.stack(list(group.values()))
                writer.score_pieces(piece_rows(number, name, start, group, values))

    def mark_saved(self) -> None:
        """Note that everything is in the store."""
        for columns in self._columns.values():
            columns.unsaved.clear()

    def forget(self) -> None:
        """Drop everything that is not in the store."""
        for columns in self._columns.values():
            while columns.unsaved:
                piece = columns.unsaved.pop()
                columns.lengths[piece.numbers[0]] = piece.start


def _grouped(unsaved: list[Piece]) -> Iterator[tuple[int, dict[int, Any]]]:
    """New values by their first row and by round; they all end at the same row."""
    parts: dict[int, list[Piece]] = defaultdict(list)
    for piece in unsaved:
        parts[piece.numbers[0]].append(piece)
    groups: dict[int, dict[int, Any]] = defaultdict(dict)
    for number in sorted(parts):
        values = np.concatenate([piece.values[0] for piece in parts[number]])  # type: ignore[index]
        groups[parts[number][0].start][number] = values
    yield from groups.items()
