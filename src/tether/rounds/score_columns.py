"""Scores of the calibration rows, one column per policy: computed once, and kept in the store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether._core.types import Floats
from tether.rounds.errors import StoreError
from tether.rounds.mixture_sums import MixtureSums
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.score_pieces import Piece, PieceIndex, piece_rows, read_scores
from tether.rounds.store.writer import Writer

DRAWS = "draws_"
"""How the names of pieces begin that hold scores of proposals instead of rows."""


class Scores(ABC):
    """Columns with one value (or one row of a table) per calibration row, by name and round.

    `sums` are those of the mixture that produced the rows, as far as they are kept.
    """

    def __init__(self) -> None:
        self.sums = MixtureSums()

    @abstractmethod
    def length(self, name: str, number: int) -> int:
        """How many rows have a score under the policy of a round."""

    @abstractmethod
    def stored_rows(self, name: str) -> int:
        """How many rows some policy has scored in an earlier round."""

    @abstractmethod
    def read(
        self, name: str, numbers: Collection[int], start: int, stop: int, width: int | None = None
    ) -> dict[int, Floats]:
        """Scores of the rows from `start` to before `stop`, by round."""

    @abstractmethod
    def _add(self, name: str, number: int, start: int, values: Floats) -> None:
        """Keep new scores of the rows from `start` on."""

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


@dataclass
class _Columns:
    """The columns of one name: how many rows each has, and their pieces in order."""

    lengths: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    stored: int = 0
    pieces: list[Piece] = field(default_factory=list)
    unsaved: list[Piece] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        for number in piece.numbers:
            self.lengths[number] = max(self.lengths[number], piece.stop)


class ScoreColumns(Scores):
    """Scores of all calibration rows.

    New values stay in memory until `save` writes them in the transaction that begins the round.
    Stored ones are read again when they are asked for; `sums` is what is kept of them.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._index = PieceIndex()
        self._learned = 0  # how many of its pieces are in the columns
        self._columns: dict[str, _Columns] = defaultdict(_Columns)
        self._settled_sums = self.sums

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
                columns.stored = max(columns.stored, piece.stop)

    def length(self, name: str, number: int) -> int:
        """How many rows have a score under the policy of a round."""
        return self._columns[name].lengths[number]

    def stored_rows(self, name: str) -> int:
        """How many rows some policy has scored in an earlier round."""
        return self._columns[name].stored

    def _add(self, name: str, number: int, start: int, values: Floats) -> None:
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
        self._settled_sums = self.sums

    def forget(self) -> None:
        """Drop everything that is not in the store."""
        for columns in self._columns.values():
            while columns.unsaved:
                piece = columns.unsaved.pop()
                columns.lengths[piece.numbers[0]] = piece.start
        self.sums = self._settled_sums


class BlockScores(Scores):
    """Scores of a block of rows from row `start` on: those in the store, and `new` ones.

    The new ones are by name and round, at the last rows of the block.
    """

    def __init__(
        self, stored: ScoreColumns, start: int, new: Mapping[tuple[str, int], Floats] | None = None
    ) -> None:
        super().__init__()
        self._stored, self.start, self.new = stored, start, dict(new or {})

    def length(self, name: str, number: int) -> int:
        """How many rows have a score under the policy of a round."""
        return self._known(name, number) + len(self.new.get((name, number), ()))

    def stored_rows(self, name: str) -> int:
        """How many rows some policy has scored in an earlier round."""
        return max(0, self._stored.stored_rows(name) - self.start)

    def read(
        self, name: str, numbers: Collection[int], start: int, stop: int, width: int | None = None
    ) -> dict[int, Floats]:
        """Scores of the rows from `start` to before `stop`, by round."""
        found = self._stored.read(name, numbers, self.start + start, self.start + stop, width)
        for number in numbers:
            first = self._known(name, number)
            if (name, number) in self.new and first < stop:
                begin = max(start, first)
                values = self.new[name, number][begin - first : stop - first]
                found[number][begin - start :] = values
        return found

    def _add(self, name: str, number: int, start: int, values: Floats) -> None:
        self.new[name, number] = values

    def _known(self, name: str, number: int) -> int:
        """How many rows of the block have a score in the store, if it is not in all of them."""
        return max(0, self._stored.length(name, number) - self.start)


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
