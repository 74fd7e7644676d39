"""The columns of a file as hashes of their values, by which copies of rows are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from tether.cli.table_file import ROWS_PER_BATCH, naming_unreadable, open_csv


def hash_columns(path: Path) -> list[NDArray[np.uint64]]:
    """A hash of each value of a Parquet or CSV file, in columns that can be written as text."""
    with naming_unreadable(path):
        parts = [[_hash_texts(column) for column in _texts(batch)] for batch in _batches(path)]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    if path.suffix == ".parquet":
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=ROWS_PER_BATCH)
        return
    with open_csv(path) as reader:
        names = list(reader.schema.names)
    with open_csv(path, {name: pa.string() for name in names if names.count(name) == 1}) as reader:
        yield from reader


def _texts(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    for column in batch.columns:
        try:
            yield pc.cast(column, pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists, structures and bytes
            continue


def _hash_texts(column: pa.Array) -> NDArray[np.uint64]:
    """A hash of each text, computed once for each that is different in this batch."""
    encoded = column.dictionary_encode()
    known = [*(hash(text) for text in encoded.dictionary.to_pylist()), 0]
    codes = encoded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)
    hashes: NDArray[np.uint64] = np.array(known, dtype=np.int64)[codes].view(np.uint64)
    return hashes
