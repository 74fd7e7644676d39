"""Parquet and CSV files as arrays, with memory in proportion to the columns that are needed.

Only these columns are read, a batch at a time, into arrays that are allocated once. How many rows
there are is known before: Parquet files state it, and the lines of a CSV file are counted. A file
whose rows would not fit into memory is refused before anything is allocated.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from tether._core import progress
from tether.cli.column_arrays import ColumnArray, make_column
from tether.cli.memory_limit import check_memory
from tether.cli.terminal import require_file

ROWS_PER_BATCH = 2**16
"""How many rows of a Parquet file are decoded at a time."""
CSV_BLOCK_BYTES = 2**20
"""How many bytes of a CSV file are parsed at a time; no line may be longer."""
LONGEST_HEADER = 2**16
"""Within so many bytes the first line of a CSV file is looked for."""
CSV_SUFFIXES = (".csv", ".gz")
PANDAS_INDEX = "__index_level_0__"
"""The column in which pandas writes row labels: it is not listed among the columns of a file."""


@dataclass(frozen=True)
class Wanted:
    """Which columns of a file are read: those with these names, and those with these prefixes.

    The columns in `numbers` become floats whatever numbers they hold.
    """

    names: Collection[str]
    prefixes: tuple[str, ...] = ()
    numbers: Collection[str] = ()

    def choose(self, column_names: list[str]) -> list[str]:
        """The columns to read, in the order of the file; ambiguous names are left out."""
        return [
            name
            for name in column_names
            if (name in self.names or name.startswith(self.prefixes or ("\0",)))
            and column_names.count(name) == 1
        ]

    def is_number(self, name: str) -> bool:
        """Whether a column must hold numbers."""
        return name in self.numbers or (bool(self.prefixes) and name.startswith(self.prefixes))


@dataclass(frozen=True)
class FileColumns:
    """A frame for `from_frame`: the names of all columns of a file, and the arrays of some."""

    column_names: list[str]
    arrays: dict[str, NDArray[Any]]
    missing: dict[str, int]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]


def read_columns(path: Path, wanted: Wanted, max_rows: int | None = None) -> FileColumns:
    """Read some columns of a Parquet or CSV file; at most `max_rows`, or what memory allows."""
    require_file(path)
    if path.suffix not in (".parquet", *CSV_SUFFIXES):
        raise ValueError(f"{path} must end in .parquet, .csv or .csv.gz")
    read = _read_parquet if path.suffix == ".parquet" else _read_csv
    with naming_unreadable(path):
        return read(path, wanted, max_rows)


@contextmanager
def naming_unreadable(path: Path) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    except OSError as error:
        message = str(error)
        raise ValueError(
            message if str(path) in message else f"{path} cannot be read: {message}"
        ) from error


def _read_parquet(path: Path, wanted: Wanted, max_rows: int | None) -> FileColumns:
    with parquet.ParquetFile(path) as file:
        names, rows = list(file.schema_arrow.names), file.metadata.num_rows
        chosen = wanted.choose(names)
        check_header(path, names)
        columns = {
            name: make_column(name, file.schema_arrow.field(name).type, wanted.is_number(name))
            for name in chosen
        }
        if rows < 1:
            raise ValueError(f"{path} has no rows")
        batches = file.iter_batches(batch_size=ROWS_PER_BATCH, columns=chosen)
        read = _fill(path, columns, rows, batches if chosen else iter(()), max_rows)
        if chosen and read != rows:
            raise ValueError(f"{path} cannot be read: it states {rows:,} rows but has {read:,}")
    return _finished(names, columns, rows)


def _read_csv(path: Path, wanted: Wanted, max_rows: int | None) -> FileColumns:
    with open_csv(path) as reader:
        schema = reader.schema
    names = list(schema.names)
    check_header(path, names)
    chosen = wanted.choose(names)
    types = {name: _first_type(schema.field(name).type, wanted.is_number(name)) for name in chosen}
    most_rows = _count_lines(path)  # not fewer than rows
    while True:
        columns = {
            name: make_column(name, kind, wanted.is_number(name)) for name, kind in types.items()
        }
        try:
            with open_csv(path, types) as reader:
                rows = _fill(path, columns, most_rows, reader if chosen else iter(()), max_rows)
        except pa.ArrowInvalid as error:
            types = _widened(types, names, error)
            continue
        if chosen and rows == 0:
            raise ValueError(f"{path} has no rows")
        return _finished(names, columns, rows)


def open_csv(path: Path, types: dict[str, pa.DataType] | None = None) -> Any:
    """A reader of a CSV file, batch by batch, for all columns or for those of known types."""
    _refuse_other_separators(path)
    return csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
        convert_options=csv.ConvertOptions(
            include_columns=None if types is None else list(types), column_types=types
        ),
    )


def _refuse_other_separators(path: Path) -> None:
    """Refuse a file whose columns are not separated by commas, before its decimals confuse it."""
    with pa.input_stream(str(path), compression="detect") as stream:
        begin = stream.read(LONGEST_HEADER)
    if begin[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise ValueError(f"{path} cannot be read: it is text in UTF-16; save it as CSV in UTF-8")
    line = begin.split(b"\n")[0].decode(errors="replace").strip()
    mark = next((each for each in ";\t|" if each in line), None)
    if mark is None or "," in line:
        return
    raise ValueError(
        f"{path} has a single column {line!r:.80}: its columns are separated by {mark!r}; separate "
        f"them by commas, and write decimals with a point. In Python: pandas.read_csv({path.name!r}"
        f", sep={mark!r}, decimal=',').to_csv('commas.csv', index=False)"
    )


def check_header(path: Path, names: list[str]) -> None:
    """Refuse a CSV file whose columns are not separated by commas."""
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise ValueError(f"{path} has a single column {names[0]!r}: separate columns by commas")


def _fill(
    path: Path,
    columns: dict[str, ColumnArray],
    rows: int,
    batches: Iterator[pa.RecordBatch],
    max_rows: int | None,
) -> int:
    """Fill the columns from batches; how many rows there were."""
    check_memory(path, rows, columns.values(), max_rows)
    for column in columns.values():
        column.allocate(rows)
    done = 0
    with progress.step(f"reading {path}", rows) as step:
        for batch in batches:
            if done + batch.num_rows > rows:
                raise ValueError(
                    f"{path} cannot be read: it has more than the {rows:,} rows stated"
                )
            for name, column in columns.items():
                column.fill(done, batch.column(name))
            check_memory(path, rows, columns.values(), max_rows)  # texts can be long
            done += batch.num_rows
            step.advance(batch.num_rows)
    return done


def _finished(names: list[str], columns: dict[str, ColumnArray], rows: int) -> FileColumns:
    arrays = {name: column.finished(rows) for name, column in columns.items()}
    names = [name for name in names if name != PANDAS_INDEX or name in columns]
    return FileColumns(names, arrays, {name: column.missing for name, column in columns.items()})


def _count_lines(path: Path) -> int:
    """An upper limit on the number of rows of a CSV file: its lines after the first."""
    breaks = carriage_returns = 0
    last = b""
    with pa.input_stream(str(path), compression="detect") as stream:
        while block := stream.read(CSV_BLOCK_BYTES):
            breaks += block.count(b"\n")
            carriage_returns += block.count(b"\r")
            last = block[-1:]
    return max(breaks, carriage_returns) - (last in b"\r\n")


def _first_type(kind: pa.DataType, is_number: bool) -> pa.DataType:
    """The type that a column of a CSV file has by its first block; more may follow."""
    if is_number and (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        return pa.float64()
    return kind


def _widened(
    types: dict[str, pa.DataType], names: list[str], error: pa.ArrowInvalid
) -> dict[str, pa.DataType]:
    """The types for another attempt, after a value that one of them does not hold."""
    found = re.search(r"column #(\d+): .*conversion error", str(error))
    name = names[int(found[1])] if found and int(found[1]) < len(names) else None
    if name not in types or pa.types.is_string(types[name]):
        raise error
    is_float = pa.types.is_integer(types[name]) or pa.types.is_null(types[name])
    return {**types, name: pa.float64() if is_float else pa.string()}
