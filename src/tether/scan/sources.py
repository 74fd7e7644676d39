"""Where rows lie: what a user may pass to `Log.scan`, and the rows of it."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from tether._core.rows import Block, Rows
from tether.scan.arrow import ArrowRows, Columns, Placed, Reading, Visit, Visited
from tether.scan.files import OnRay, ParquetRows, RayRows

ROWS_PER_BATCH = 1 << 17
"""How many rows of an engine are read at once."""
ENGINES = ("duckdb", "_duckdb", "polars", "pyspark", "py4j")


def open_rows(
    source: Any,
    columns: Columns | Callable[[list[str]], Columns],
    where: Any = None,
    *,
    derive: Callable[[Block], Block] | None = None,
    check: Callable[[Block], object] | None = None,
) -> Rows:
    """Open rows that are read in parts, as often as they are needed.

    The source is one of those of `Log.scan`. `columns` has for every key of a block the name of its
    column, or several names for a table; or it makes this mapping from the names of all columns.
    `derive` makes the block that kernels see from the one that is read, and `check` raises where a
    value is not valid; it is called once for every block.
    """

    def read(names: list[str]) -> Reading:
        return Reading(columns(names) if callable(columns) else columns, derive, check)

    if isinstance(source, OnRay):
        return RayRows(source.files, read, where)
    several = source if isinstance(source, (list, tuple)) and source else [source]
    if all(isinstance(each, (str, os.PathLike)) for each in several):
        return ParquetRows(source, read, where)
    if where is not None:
        raise TypeError("where filters Parquet files only: filter the frame itself")
    engine = type(source).__module__.partition(".")[0].lstrip("_")
    if engine == "pyspark":
        return SparkRows(source, read)
    if engine == "duckdb":
        return FrameRows("DuckDB", source.columns, read, partial(_duckdb_batches, source))
    if engine == "polars":
        return _polars_rows(source.lazy(), read)
    if callable(source):
        first = next(iter(source()), None)
        if not isinstance(first, pa.RecordBatch):
            raise TypeError(f"source must return Arrow record batches when called, got {first!r}")
        name = getattr(source, "__name__", type(source).__name__)
        return FrameRows(name, list(first.schema.names), read, lambda _: source())
    raise TypeError(
        f"source must be a path, folder or glob of Parquet files, a DuckDB relation, a Polars or "
        f"Spark frame, or a function that returns Arrow record batches, got {type(source).__name__}"
    )


class FrameRows(ArrowRows):
    """Rows that an engine or a function of the user's own hands out as record batches."""

    def __init__(
        self,
        name: str,
        known: list[str],
        read: Callable[[list[str]], Reading],
        start: Callable[[list[str]], Iterable[pa.RecordBatch]],
    ) -> None:
        super().__init__(read(known), f"the rows of {name}")
        self.reading.require(known, self.described)
        self.start = start

    def batches(self) -> Iterator[Placed]:
        """All batches, each with the number of rows before it."""
        before = 0
        try:
            for batch in self.start(self.reading.needed):
                for first in range(0, batch.num_rows, ROWS_PER_BATCH):
                    yield self.described, before + first, batch.slice(first, ROWS_PER_BATCH)
                before += batch.num_rows
        except Exception as error:
            raise _from_engine(error, self.described) from error


def _duckdb_batches(relation: Any, names: list[str]) -> Iterator[pa.RecordBatch]:
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    # Closed at the end: a connection with an open result takes no further query.
    with relation.project(quoted).to_arrow_reader(ROWS_PER_BATCH) as reader:
        yield from reader


def _polars_rows(frame: Any, read: Callable[[list[str]], Reading]) -> FrameRows:
    """The rows of a lazy frame, counted first: at a file it cannot read, Polars may just stop."""
    import polars

    def start(names: list[str]) -> Iterator[pa.RecordBatch]:
        chosen = frame.select(names)
        for part in chosen.collect_batches(maintain_order=True, engine="streaming"):
            yield from part.to_arrow().to_batches()

    rows = FrameRows("Polars", frame.collect_schema().names(), read, start)
    try:
        rows._rows = int(frame.select(polars.len()).collect().item())
    except (Exception, polars.exceptions.PanicException) as error:
        raise _from_engine(error, rows.described) from error
    return rows


class SparkRows(ArrowRows):
    """A Spark data frame: kernels run in its Python workers, and only their results leave them."""

    def __init__(self, frame: Any, read: Callable[[list[str]], Reading]) -> None:
        super().__init__(read(frame.columns), "the rows of Spark")
        self.reading.require(frame.columns, self.described)
        self.frame = frame

    def visits(self, visit: Visit) -> Iterator[Visited]:
        """The visit of every batch, partition by partition."""
        place = f"{self.described}, in one partition"

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            before = 0
            for batch in batches:
                visited = pickle.dumps(visit.of_batch((place, before, batch)))
                yield pa.RecordBatch.from_pydict({"visited": [visited]})
                before += batch.num_rows

        chosen = self.frame.select(*(f"`{name}`" for name in self.reading.needed))
        try:
            for row in chosen.mapInArrow(run, "visited binary").collect():
                yield pickle.loads(row.visited)
        except Exception as error:
            raise _from_engine(error, self.described) from error


def _from_engine(error: BaseException, described: str) -> BaseException:
    """An engine's error with what was read; a kernel's error inside Spark as it was raised."""
    package = type(error).__module__.partition(".")[0]
    if not isinstance(error, (OSError, pa.ArrowException)) and package not in ENGINES:
        return error
    own = re.findall(r"^(ValueError|TypeError): (.*)$", str(error), flags=re.MULTILINE)
    if own:
        return (ValueError if own[-1][0] == "ValueError" else TypeError)(own[-1][1])
    hint = "to have the file named, scan the folder or glob of files itself"
    return ValueError(f"{described} cannot be read: {error} ({hint})")
