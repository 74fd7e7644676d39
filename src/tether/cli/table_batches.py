"""Rows of a Parquet, CSV or JSON lines file, a batch at a time, in bounded memory.

Keys must not change on the way: "007" in a CSV file is this text and not the number 7.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from tether._core.text_hints import loss_hint
from tether.cli.json_lines import JSON_LINES_SUFFIXES, read_json_lines
from tether.cli.table_file import (
    CSV_SUFFIXES,
    check_header,
    naming_unreadable,
    open_csv,
)
from tether.cli.terminal import require_file

MAX_BATCH_ROWS = 10_000
"""How many rows a batch has at most: a store takes about a second for them."""


@dataclass(frozen=True)
class Batch:
    """Some rows of a file, of which `first` is the number of the first, from 1.

    Texts are lists, "" where there is none; numbers are arrays, NaN where there is none. A column
    that the file does not have is left out.
    """

    first: int
    rows: int
    texts: dict[str, list[str]]
    numbers: dict[str, NDArray[np.float64]]


def read_batches(
    path: Path, *, texts: Collection[str], numbers: Collection[str]
) -> Iterator[Batch]:
    """Read the columns with these names, as far as the file has them."""
    require_file(path)
    if path.suffix not in (".parquet", *CSV_SUFFIXES, *JSON_LINES_SUFFIXES):
        raise ValueError(f"{path} must end in .parquet, .csv, .csv.gz or .jsonl")
    first = 1
    with naming_unreadable(path), _naming_words(path):
        for table in _parts(_tables(path, texts, numbers)):
            names = table.schema.names
            yield Batch(
                first,
                table.num_rows,
                {name: _texts(name, table.column(name)) for name in texts if name in names},
                {name: _numbers(name, table.column(name)) for name in numbers if name in names},
            )
            first += table.num_rows
    if first == 1:
        raise ValueError(f"{path} has no rows")


@contextmanager
def _naming_words(path: Path) -> Iterator[None]:
    """Say which column of a CSV file has a word where a number must be."""
    try:
        yield
    except pa.ArrowInvalid as error:
        found = re.search(r"column #(\d+): .*error to double: invalid value '(.*)'", str(error))
        if not found:
            raise
        with open_csv(path) as reader:
            name, value = reader.schema.names[int(found[1])], found[2]
        raise ValueError(
            f"{path}: column {name!r} must hold numbers, got {value!r:.80}{loss_hint([value])}"
        ) from error


def _parts(tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        for start in range(0, table.num_rows, MAX_BATCH_ROWS):
            yield table.slice(start, MAX_BATCH_ROWS)


def _tables(
    path: Path, texts: Collection[str], numbers: Collection[str]
) -> Iterator[pa.RecordBatch]:
    if path.suffix in JSON_LINES_SUFFIXES:
        yield from read_json_lines(path, texts, numbers)
    elif path.suffix == ".parquet":
        with parquet.ParquetFile(path) as file:
            chosen = _chosen(path, file.schema_arrow.names, {*texts, *numbers})
            yield from file.iter_batches(batch_size=MAX_BATCH_ROWS, columns=chosen)
    else:
        with open_csv(path) as reader:
            schema = reader.schema
        check_header(path, list(schema.names))
        chosen = _chosen(path, schema.names, {*texts, *numbers})
        kinds = {name: _csv_type(schema.field(name).type, name in texts) for name in chosen}
        with open_csv(path, kinds) as reader:
            yield from reader


def _chosen(path: Path, names: list[str], wanted: set[str]) -> list[str]:
    for name in wanted:
        if names.count(name) > 1:
            raise ValueError(f"{path} has {names.count(name)} columns {name!r}")
    return [name for name in names if name in wanted]


def _csv_type(kind: pa.DataType, is_text: bool) -> pa.DataType:
    if is_text:
        return pa.string()
    return kind if pa.types.is_boolean(kind) else pa.float64()


def _texts(name: str, column: pa.Array) -> list[str]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_integer(kind):
        column = column.cast(pa.string())
    elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise ValueError(f"column {name!r} must hold text or integers, got {kind}")
    return [text or "" for text in column.to_pylist()]


def _numbers(name: str, column: pa.Array) -> NDArray[np.float64]:
    kind = column.type
    is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    if not (is_number or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise ValueError(f"column {name!r} must hold numbers, got {kind}")
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)
