"""Frames of engines as a source: DuckDB relations, Polars lazy frames, Spark data frames.

Kernels run on Arrow batches that DuckDB or Polars hands over one by one, or inside the workers of
Spark. With validation and ranges, a GROUP BY of the engine takes longer than the kernel.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from tether._core import progress
from tether._core.kernels import Kernel, merge_all, needs_whole_parts
from tether.scan.arrow_columns import joined, to_arrays
from tether.scan.data_files import PARQUET_SUFFIXES
from tether.scan.same_rows import Visited, Visiting

ROWS_PER_ENGINE_BATCH = 1 << 18
"""How many rows of an engine are asked for at once, where it can be told."""
MOST_BYTES_AT_ONCE = 1 << 25
"""How large a slice of a batch may be that has been decoded as a whole."""
FEWEST_ROWS_ALONE = 1 << 16
"""Batches with fewer rows are joined to others, as after a filter that few rows pass."""

HINT = ". To have the file named, scan the folder or glob of files itself"
"""What helps where an engine does not say which file it could not read."""
FILE_COLUMN_HINT = (
    "to have its file named, scan the folder or glob of files itself, or let Polars add a column "
    "with polars.scan_parquet(..., include_file_paths='file')"
)
"""What helps where the rows of a Polars frame do not say which file they are from."""


class FrameSource:
    """The rows of a frame of an engine, read anew in each pass.

    Parameters
    ----------
    frame : DuckDB relation, Polars lazy frame or Spark data frame
        What narwhals takes as a lazy frame.
    """

    def __init__(self, frame: Any) -> None:
        self.frame: nw.LazyFrame[Any] = nw.from_native(frame).lazy()
        self.names: list[str] = self.frame.collect_schema().names()
        self._rows: int | None = None  # known after the first pass
        self._visited: Visited | None = None

    @property
    def engine(self) -> str:
        """The name of the engine."""
        return str(self.frame.implementation.value)

    def __repr__(self) -> str:
        return f"FrameSource({self.engine}, columns {self.names})"

    def reduce(self, kernel: Kernel) -> Any:
        """The merged summaries of a kernel on all rows; None if there are none."""
        with self._naming_the_engine():
            for name in kernel.columns:
                if name not in self.names:
                    raise ValueError(f"there is no column {name!r}; there are {self.names}")
            if needs_whole_parts(kernel):  # claims compare their own contents
                return self._merged(kernel)
            found = self._merged(Visiting(kernel)) or Visited(None, 0, {})
            if self._visited is not None and (other := found.difference(self._visited)):
                raise ValueError(
                    f"the frame gave other rows than in an earlier pass: {other}; have files "
                    f"changed since? Scan the frame again"
                )
            self._visited = found.joined(self._visited or found)
            return found.summary

    def _merged(self, kernel: Kernel) -> Any:
        if self.frame.implementation.is_spark_like():
            from tether.scan.spark import reduce_spark

            return reduce_spark(self.frame.to_native(), kernel)
        with progress.step(f"reading rows from {self.engine}", self._rows) as step:
            return merge_all(self._summaries(kernel, step))

    def _summaries(self, kernel: Kernel, step: progress.Step) -> Iterator[Any]:
        frame, start = self.frame.select(*kernel.columns), 0
        whole = needs_whole_parts(kernel)
        if whole:
            item = kernel.names.items  # type: ignore[attr-defined]
            batches = whole_items(stream(frame.sort(item)), item)
        else:
            batches = stream(frame)
        for batch in batches:
            if batch.num_rows:
                try:
                    yield kernel.partial(to_arrays(batch))
                except (TypeError, ValueError) as error:
                    batches.close()
                    place = f"rows counted from row {start}"
                    if not whole:
                        place += self._where_refused(kernel, batch, start)
                    raise type(error)(f"{error} ({place})") from error
            start += batch.num_rows
            step.advance(batch.num_rows)
        self._rows = start

    def _where_refused(self, kernel: Kernel, batch: pa.RecordBatch, start: int) -> str:
        """The file of the first row that a kernel refuses, or how to learn it, in words."""
        row = first_refused(kernel, batch)
        if row is None:
            return ""
        if self.frame.implementation.is_duckdb():
            file = self._file_by_duckdb(kernel, start + row)
            return "" if file is None else f"; it is in {file}"
        if not self.frame.implementation.is_polars():
            return ""
        stated = self._file_column(kernel, start + row)
        if stated is None:
            return f"; {FILE_COLUMN_HINT}"
        return f"; its column {stated[0]!r} says {stated[1]}"

    def _file_by_duckdb(self, kernel: Kernel, row: int) -> str | None:
        """The file of a row that a kernel refuses, if DuckDB tells."""
        names = ", ".join(f'"{name}"' for name in kernel.columns)
        native: Any = self.frame.to_native()
        try:
            one = native.project(f"{names}, filename").limit(1, offset=row).to_arrow_table()
        except Exception:  # no frame of files, or one that does not pass their names on
            return None
        refused = first_refused(kernel, one.select(kernel.columns).to_batches()[0])
        return None if refused is None else str(one["filename"][0])

    def _file_column(self, kernel: Kernel, row: int) -> tuple[str, str] | None:
        """The column that names the Parquet file of a row that a kernel refuses, and the name.

        The plan of a Polars frame is not public, but `include_file_paths` makes such a column.
        """
        schema = self.frame.collect_schema()
        texts = [name for name, kind in schema.items() if kind in (nw.String, nw.Categorical)]
        if not texts:
            return None
        native: Any = self.frame.to_native()
        columns = list(dict.fromkeys((*kernel.columns, *texts)))
        one = native.select(columns).slice(row, 1).collect(engine="streaming").to_arrow()
        found = one.select(kernel.columns).to_batches()
        if not found or first_refused(kernel, found[0]) is None:  # rows came in another order
            return None
        values = ((name, str(one[name][0].as_py())) for name in texts)
        return next((each for each in values if each[1].endswith(PARQUET_SUFFIXES)), None)

    @contextmanager
    def _naming_the_engine(self) -> Iterator[None]:
        """Say which engine it was, also for its own errors about files that it cannot read."""
        try:
            yield
        except Exception as error:
            engines = ("duckdb", "_duckdb", "polars", "pyspark")
            if type(error).__module__.partition(".")[0] in engines or isinstance(
                error, (OSError, pa.ArrowException)
            ):
                hint = "" if any(each in str(error) for each in PARQUET_SUFFIXES) else HINT
                raise ValueError(f"{self.engine} cannot read the rows: {error}{hint}") from error
            if not isinstance(error, (TypeError, ValueError)):
                raise
            raise type(error)(f"{self.engine}: {error}") from error


def stream(frame: nw.LazyFrame[Any]) -> Generator[pa.RecordBatch]:
    """The rows of a frame of DuckDB or Polars as Arrow batches."""
    native = frame.to_native()
    if frame.implementation.is_duckdb():
        # Closed at the end: a connection with an open result takes no further query.
        with native.to_arrow_reader(ROWS_PER_ENGINE_BATCH) as reader:
            yield from reader
    elif frame.implementation.is_polars():
        # As Polars has decoded them: batches of a given size would be copied for that.
        parts = native.collect_batches(maintain_order=True, engine="streaming")
        yield from regrouped(batch for part in parts for batch in part.to_arrow().to_batches())
    else:
        yield from frame.collect().to_arrow().to_batches(ROWS_PER_ENGINE_BATCH)


def first_refused(kernel: Kernel, batch: pa.RecordBatch) -> int | None:
    """The first row that a kernel refuses by itself; None if it only refuses several together."""

    def refused(start: int, rows: int) -> bool:
        try:
            kernel.partial(to_arrays(batch.slice(start, rows)))
        except (TypeError, ValueError):
            return True
        return False

    start, rows = 0, batch.num_rows
    while rows > 1:
        half = rows // 2
        if refused(start, half):
            rows = half
        else:
            start, rows = start + half, rows - half
    return start if refused(start, 1) else None


def regrouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Large batches in slices, and small ones together: neither copies more than small ones."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows < FEWEST_ROWS_ALONE:
            held.append(batch)
            rows += batch.num_rows
            if rows >= FEWEST_ROWS_ALONE:
                yield from joined(held)
                held, rows = [], 0
            continue
        yield from joined(held)
        held, rows = [], 0
        at_once = max(MOST_BYTES_AT_ONCE * batch.num_rows // max(batch.nbytes, 1), 1)
        for start in range(0, batch.num_rows, at_once):
            yield batch.slice(start, at_once)
    yield from joined(held)


def whole_items(batches: Iterator[pa.RecordBatch], item: str) -> Generator[pa.RecordBatch]:
    """Batches, sorted by item, cut so that each item is in one of them."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        names = batch.column(item)
        last = names[batch.num_rows - 1]
        same = pa.compute.equal(names, last).fill_null(True).to_numpy(zero_copy_only=False)
        cut = batch.num_rows if not same.any() else int(np.argmax(same))
        if cut:
            yield from joined([*held, batch.slice(0, cut)])
            held = []
        held.append(batch.slice(cut))
    yield from joined(held)
