"""Rows that come as Arrow record batches, read anew in every pass.

Numbers become floats, with NaN where a value is missing; lists of equal length become the rows of a
table. Every value is checked in the first pass, and an error says where the row lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from tether._core import progress
from tether._core.rows import BLOCK, Block, Rows, cut, hash_rows, side_by_side, thread_limit

T = TypeVar("T")
Columns = Mapping[str, str | Sequence[str]]
Placed = tuple[str, int, pa.RecordBatch]
"""A batch, the place it is from, and the row at which it begins there."""

LISTS = (types.is_list, types.is_large_list, types.is_fixed_size_list)
STRINGS = (types.is_string, types.is_large_string, types.is_string_view)
NUMBERS = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)


class Reading(NamedTuple):
    """What is read: block keys with their columns, what is derived from them, what is checked.

    A key with several columns, or with one of lists, is a table. `derive` makes the block that
    kernels see; `check` raises where a value is not valid, and is called in the first pass.
    """

    columns: Columns
    derive: Callable[[Block], Block] | None = None
    check: Callable[[Block], object] | None = None

    @property
    def needed(self) -> list[str]:
        """The names of all columns that are read."""
        several = ([one] if isinstance(one, str) else one for one in self.columns.values())
        return list(dict.fromkeys(name for names in several for name in names))

    def require(self, known: Sequence[str], place: str) -> None:
        """Raise one error for all columns that are missing or there more than once."""
        wrong = [name for name in self.needed if list(known).count(name) != 1]
        if wrong:
            lacks = "more than one" if all(name in known for name in wrong) else "no"
            raise ValueError(f"{place} has {lacks} column {str(wrong)[1:-1]}; it has {list(known)}")

    def block(self, batch: pa.RecordBatch) -> Block:
        """The rows of one batch."""
        read = {name: to_array(name, batch.column(name)) for name in self.needed}
        found: Block = {}
        for key, given in self.columns.items():
            parts = [read[name] for name in ([given] if isinstance(given, str) else given)]
            alone = isinstance(given, str) or (len(parts) == 1 and parts[0].ndim == 2)
            found[key] = parts[0] if alone else np.column_stack(parts)
        return found if self.derive is None else self.derive(found)


class Visited(NamedTuple):
    """What a kernel returned for the blocks of a batch; its rows and their fingerprint."""

    results: list[Any]
    rows: int
    fingerprint: int = 0


class Visit(NamedTuple):
    """What is done with each batch in one pass; it can travel to other processes."""

    reading: Reading
    kernel: Callable[[Block], Any]
    size: int
    check: bool
    fingerprinted: bool

    def of_batch(self, placed: Placed) -> Visited:
        """The visit of one batch; an error says where it is from."""
        place, start, batch = placed
        if not batch.num_rows:
            return Visited([], 0)
        try:
            block = self.reading.block(batch)
            if self.check and self.reading.check is not None:
                self.reading.check(block)
            results = [self.kernel(each) for each in cut(block, self.size)]
        except (TypeError, ValueError) as error:
            raise type(error)(f"{place}: {error} (rows counted from row {start:,})") from error
        return Visited(results, batch.num_rows, fingerprint(block) if self.fingerprinted else 0)


class ArrowRows(Rows):
    """Rows in record batches; subclasses say where they come from.

    Rows must be the same in every pass: a beta from two passes over different rows means nothing.
    Files are watched by their sizes and times, other sources by a fingerprint of their rows.
    """

    fingerprinted = True

    def __init__(self, reading: Reading, described: str) -> None:
        self.reading, self.described = reading, described
        self.names = tuple(reading.columns)
        self._rows: int | None = None  # known before the first pass, or after it
        self._fingerprint: int | None = None  # known after the first pass

    def __len__(self) -> int:
        if self._rows is None:
            return sum(self.map(lambda block: len(next(iter(block.values())))))
        return self._rows

    @property
    def columns(self) -> Block:
        """Raise: the rows are not in memory."""
        raise ValueError(f"{self.described}: rows that are read in parts are not in memory")

    def batches(self) -> Iterator[Placed]:
        """All batches, in order."""
        raise NotImplementedError

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """The rows in order, in blocks of at most `size`."""
        yield from self.map(lambda block: block, size)

    def map(self, kernel: Callable[[Block], T], size: int = BLOCK) -> Iterator[T]:
        """What a kernel returns for each block, in the order of the blocks."""
        visit = Visit(self.reading, kernel, size, self._fingerprint is None, self.fingerprinted)
        rows = prints = 0
        with progress.step(f"reading {self.described}", self._rows) as advance:
            for visited in self.visits(visit):
                yield from visited.results
                rows, prints = rows + visited.rows, (prints + visited.fingerprint) % (1 << 64)
                advance(visited.rows)
        if not rows:
            raise ValueError(f"{self.described}: there are no rows")
        if self._rows not in (None, rows) or self._fingerprint not in (None, prints):
            problem = f"{rows:,} rows, which are not those read before: scan them again"
            raise ValueError(f"{self.described}: {problem}")
        self._rows, self._fingerprint = rows, prints

    def visits(self, visit: Visit) -> Iterator[Visited]:
        """The visit of every batch, in order."""
        return side_by_side(visit.of_batch, self.batches(), thread_limit())


def fingerprint(block: Block) -> int:
    """A sum of one hash per row, which does not depend on the order of the rows."""
    numbers = [column for column in block.values() if column.dtype.kind in "fb"]
    return int(np.sum(hash_rows(numbers), dtype=np.uint64))


def kind_of(arrow_type: pa.DataType) -> str:
    """What a column holds, in words: the columns of all files must agree in it."""
    if types.is_dictionary(arrow_type):
        return kind_of(arrow_type.value_type)
    if any(test(arrow_type) for test in LISTS):
        return f"lists of {kind_of(arrow_type.value_type)}"
    if any(test(arrow_type) for test in STRINGS):
        return "strings"
    return "numbers" if any(test(arrow_type) for test in NUMBERS) else str(arrow_type)


def to_array(name: str, column: pa.Array) -> NDArray[Any]:
    """One column: a float or a string per row, or a row of floats."""
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = kind_of(column.type)
    if kind == "numbers":
        return _floats(column)
    if kind not in ("strings", "lists of numbers"):
        raise TypeError(f"the column {name!r} holds {kind}, expected numbers, strings or lists")
    if column.null_count:
        raise ValueError(f"the column {name!r} has {column.null_count} missing value(s)")
    if kind == "strings":
        return np.asarray(column.to_pylist(), dtype=np.str_)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if lengths.min() != lengths.max():
        got = f"{lengths.min()} to {lengths.max()}"
        raise ValueError(f"the column {name!r} must have lists of the same length, got {got}")
    return _floats(column.flatten()).reshape(len(column), int(lengths[0]))


def _floats(column: pa.Array) -> NDArray[np.float64]:
    if not types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
