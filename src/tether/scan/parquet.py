"""Parquet files as a source, on this machine or in object storage.

Files are read in batches, with only the columns that a kernel names, so memory does not grow with
the rows. Two threads take the files in turn; decoding and most of numpy release the lock. The
answer does not depend on which is faster, since summaries merge in any order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pa_dataset
from pyarrow import parquet

from tether._core import progress
from tether._core.kernels import Kernel, merge_all, needs_whole_parts
from tether.scan.arrow_columns import joined, kind_of, to_arrays
from tether.scan.data_files import DataFile, find_files, one_line
from tether.scan.partition_folders import folder_types, with_folders

VALUES_PER_BATCH = 1 << 18
"""About how many values are decoded at once, so that memory does not grow with the columns."""
ASSUMED_LIST_LENGTH = 16
"""How many values a list counts for, before it is read."""
SCAN_THREADS = 2
"""How many files, or groups of rows of one, are read at the same time."""
CHECKED_PAGES = pa_dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
"""Pages are compared with their checksums, in files that have them."""


class Piece(NamedTuple):
    """A group of rows of one file, and the row of the file at which it begins.

    The group is None for the whole file, which is then passed to a kernel in one piece.
    """

    file: DataFile
    metadata: parquet.FileMetaData
    group: int | None
    start: int


class Parquet:
    """Parquet files, whose schemas agree in the columns that are read."""

    def __init__(self, path: Any, *, where: Any = None, threads: int = SCAN_THREADS) -> None:
        if where is not None and not isinstance(where, pc.Expression):
            raise TypeError(
                f"where must be a pyarrow.compute expression, such as "
                f"pyarrow.compute.field('day') >= 3, got {where!r}"
            )
        self.files = find_files(path)
        self.where, self.threads = where, threads
        self._folders = {} if where is None else folder_types(each.path for each in self.files)
        self._states: dict[str, tuple[Any, ...] | None] = {}
        self._kinds: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self.names: list[str] = list(self.files[0].open().schema_arrow.names)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        chosen = "" if self.where is None else f", where {self.where}"
        return f"Parquet({len(self.files)} file(s), first {self.files[0]}{chosen})"

    def reduce(self, kernel: Kernel) -> Any:
        """Read the columns of the kernel in all files, and merge its summaries."""
        with progress.step(f"reading {len(self.files)} file(s)", self.rows) as step:
            return self._reduced(kernel, step)

    @cached_property
    def rows(self) -> int:
        """The number of rows that the files state, before any condition."""
        return sum(each.open().metadata.num_rows for each in self.files)

    def _reduced(self, kernel: Kernel, step: progress.Step) -> Any:
        total: Any = None
        # Two scanners of Arrow at the same time may wait for each other for ever: a scanner, which
        # `where` needs, decodes on Arrow's own threads instead.
        if self.threads <= 1 or self.where is not None:
            for piece in self._pieces(kernel):
                total = _merged(piece, total, self._summary(kernel, piece, step))
            return total
        pieces = self._pieces(kernel)
        with ThreadPoolExecutor(self.threads) as pool:
            running: dict[Future[Any], Piece] = {}
            try:
                for piece in islice(pieces, 2 * self.threads):
                    running[pool.submit(self._summary, kernel, piece, step)] = piece
                while running:
                    done = wait(running, return_when=FIRST_COMPLETED).done
                    for each in done:
                        total = _merged(running.pop(each), total, each.result())
                    for piece in islice(pieces, len(done)):
                        running[pool.submit(self._summary, kernel, piece, step)] = piece
            finally:
                for each in running:
                    each.cancel()
        return total

    def _pieces(self, kernel: Kernel) -> Iterator[Piece]:
        """All groups of rows of all files, or whole files for a kernel that needs them."""
        for file in self.files:
            self.require_unchanged(file)
            start, metadata = 0, file.open().metadata
            if needs_whole_parts(kernel):
                yield Piece(file, metadata, None, 0)
                continue
            for group in range(metadata.num_row_groups):
                yield Piece(file, metadata, group, start)
                start += metadata.row_group(group).num_rows

    def require_unchanged(self, file: DataFile) -> DataFile:
        """The file; raises if it was written again, or removed, since the first pass."""
        now = file.state()
        if self._states.setdefault(file.name, now) != now:
            change = "was removed" if now is None else "has changed"
            raise ValueError(
                f"{file}: the file {change} since the source was opened, and what was computed "
                f"from its rows no longer holds: open the source again"
            )
        return file

    def _summary(self, kernel: Kernel, piece: Piece, step: progress.Step) -> Any:
        """The summary of one group of rows."""
        total: Any = None
        for start, batch in self._batches(kernel.columns, piece):
            if not batch.num_rows:
                continue
            try:
                # Arrow also reads columns whose names begin with a name and a dot.
                summary = kernel.partial(to_arrays(batch.select(list(kernel.columns))))
            except (TypeError, ValueError) as error:
                kept = "rows that `where` keeps, counted from" if self.where is not None else ""
                place = f"{kept or 'rows counted from'} row {start} of the file"
                raise type(error)(f"{piece.file}: {error} ({place})") from error
            total = _merged(piece, total, summary)
            step.advance(batch.num_rows)
        return total

    def _batches(
        self, columns: Sequence[str], piece: Piece
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The batches of one group of rows, each with the row of the file where it begins."""
        start = piece.start
        try:
            with piece.file.open(piece.metadata) as file:
                self._check_schema(piece.file, file.schema_arrow, columns)
                groups = None if piece.group is None else [piece.group]
                rows = _batch_rows(file.schema_arrow, columns)
                if self.where is None:
                    batches = file.iter_batches(rows, groups, list(columns), use_threads=False)
                else:
                    schema, holds = with_folders(piece.file.path, file.schema_arrow, self._folders)
                    self._check_where(piece.file, schema)
                    fragment = pa_dataset.ParquetFileFormat().make_fragment(
                        piece.file.path,
                        filesystem=piece.file.filesystem,
                        partition_expression=holds,
                        row_groups=groups,
                    )
                    batches = fragment.scanner(
                        schema=schema,
                        columns=list(columns),
                        filter=self.where,
                        batch_size=rows,
                        batch_readahead=SCAN_THREADS,
                        use_threads=True,
                        fragment_scan_options=CHECKED_PAGES,
                    ).to_batches()
                for batch in joined(batches) if piece.group is None else batches:
                    yield start, batch
                    start += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"{piece.file}: cannot be read from row {start} on, the file may be truncated or "
                f"corrupt: {one_line(error)}"
            ) from error

    def _check_where(self, file: DataFile, schema: pa.Schema) -> None:
        """Refuse a condition that a file without any rows does not meet either."""
        try:
            schema.empty_table().filter(self.where)
        except pa.ArrowException as error:
            raise ValueError(
                f"{file}: where, {self.where}, does not fit the columns {schema.names}: "
                f"{str(error).partition(chr(10))[0]}"
            ) from error

    def _check_schema(self, file: DataFile, schema: pa.Schema, columns: Sequence[str]) -> None:
        """Refuse a file that lacks a column, or holds something else in it than other files."""
        for name in columns:
            if schema.names.count(name) != 1:
                raise ValueError(
                    f"{file}: there is no column {name!r}; the file has {schema.names}"
                    if name not in schema.names
                    else f"{file}: there are {schema.names.count(name)} columns {name!r}"
                )
            kind = kind_of(schema.field(name).type)
            with self._lock:
                first, elsewhere = self._kinds.setdefault(name, (kind, file.name))
            if kind != first and "nulls" not in (kind, first):
                raise TypeError(
                    f"{file}: the column {name!r} holds {kind}, but in {elsewhere} it holds {first}"
                )


def _merged(piece: Piece, total: Any, summary: Any) -> Any:
    """Both summaries; where one does not fit the other, the error names the file."""
    try:
        return merge_all((total, summary))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{piece.file}: {error}, in another file or in other rows") from error


def _batch_rows(schema: pa.Schema, columns: Sequence[str]) -> int:
    """How many rows to decode at once."""
    lists = sum(kind_of(schema.field(name).type).startswith("lists") for name in columns)
    values = len(columns) + lists * (ASSUMED_LIST_LENGTH - 1)
    return max(VALUES_PER_BATCH // max(values, 1), 1)
