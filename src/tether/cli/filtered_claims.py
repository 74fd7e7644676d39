"""Claims of one file or of several that a threshold keeps, copied batch by batch into a file.

All columns are copied as they are: those of a CSV file as text, so that no number is written
differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from tether._core import files, progress
from tether.cli.scanned_paths import is_in_parts, is_in_storage, location
from tether.cli.table_file import (
    CSV_SUFFIXES,
    PANDAS_INDEX,
    ROWS_PER_BATCH,
    check_header,
    naming_unreadable,
    open_csv,
)
from tether.cli.terminal import require_file
from tether.risk import Selection
from tether.risk.claim_filter import (
    count_outside,
    keep_promised,
    require_near,
    require_scale,
    score_range,
)
from tether.risk.item_comparison import ItemCounts, add_items, count_items, require_most_claims
from tether.risk.kept_comparison import KeptCounts, add_counts, count_kept


@dataclass(frozen=True)
class ClaimColumns:
    """The columns of scores, groups and items, and the mark of rows that are not left out.

    Without a `mark`, rows that are not kept are left out.
    """

    score: str
    group: str | None = None
    mark: str | None = None
    item: str | None = None

    def _named(self) -> tuple[tuple[str, str | None], ...]:
        return ("score", self.score), ("group", self.group), ("item", self.item)

    def check(self, path: Path, names: list[str], selection: Selection) -> None:
        """Raise unless the file has these columns and the selection fits them."""
        for option, name in self._named():
            if name is not None and names.count(name) != 1:
                has = f"{names.count(name)} columns" if name in names else "no column"
                listed = [each for each in names if each != PANDAS_INDEX]
                raise ValueError(f"--{option}: {path} has {has} {name!r}; its columns are {listed}")
        if self.mark is not None and self.mark in names:
            raise ValueError(f"--mark: {path} has a column {self.mark!r} already")
        if selection.groups and self.group is None:
            raise ValueError(
                "--group is required: this selection has one threshold per group "
                f"({', '.join(map(repr, selection.groups))})"
            )
        if self.group is not None and not selection.groups:
            raise ValueError(
                f"--group {self.group!r} was given, but this selection has one threshold for all "
                f"claims"
            )


@dataclass(frozen=True)
class FilteredClaims:
    """How many claims were read and kept, are outside the calibration's scores, and are refused.

    Refused are those of groups without a useful promise; `by_group` counts those of the others, and
    `items` those of each item, where items are named.
    """

    read: int
    kept: int
    outside: int
    refused: int = 0
    by_group: KeptCounts = field(default_factory=dict)
    items: ItemCounts | None = None


def copy_kept(
    source: Path,
    target: Path,
    selection: Selection,
    columns: ClaimColumns,
    *,
    overwrite: bool,
    step: progress.Step,
) -> FilteredClaims:
    """Write the claims of one file, or of all files of a folder or glob, that are kept.

    All of them are written or none, into one file: none where most scores lie outside those of the
    calibration, or one of them far outside.
    """
    paths = _claim_files(source, target)
    is_csv = _is_csv(paths[0])
    if _is_csv(target) != is_csv:
        raise ValueError(
            f"--out must be a file of the same kind as {source}, got {target}: a CSV file is "
            f"copied as text"
        )
    with naming_unreadable(paths[0]), _batches(paths[0], is_csv) as (schema, _):
        check_header(paths[0], schema.names)
        columns.check(paths[0], list(schema.names), selection)
    written = schema
    if columns.mark is not None:
        written = schema.append(pa.field(columns.mark, pa.bool_()))
    counts: list[FilteredClaims] = []
    with (
        files.replacing(target, overwrite=overwrite) as temporary,
        _writer(temporary, written, is_csv) as writer,
    ):
        for path in paths:
            with _naming_one_of_many(path, paths), _batches(path, is_csv) as (own, batches):
                if not own.equals(schema):
                    raise ValueError(
                        f"the columns differ from those of {paths[0]}: {_described(own)} instead "
                        f"of {_described(schema)}"
                    )
                for batch in _kept(batches, selection, columns, written, counts):
                    writer.write_batch(batch)
                    step.advance(counts[-1].read)
        total = FilteredClaims(
            sum(each.read for each in counts),
            sum(each.kept for each in counts),
            sum(each.outside for each in counts),
            sum(each.refused for each in counts),
            reduce(add_counts, (each.by_group for each in counts), {}),
            None if columns.item is None else _all_items(counts),
        )
        require_most_claims(selection, total.items or {}, "nothing is written")
        require_scale(selection, total.outside, total.read, "nothing is written")
    return total


def _kept(
    batches: Iterator[Any],
    selection: Selection,
    columns: ClaimColumns,
    schema: Any,
    counts: list[FilteredClaims],
) -> Iterator[Any]:
    """What is kept of each batch of one file; the counts of a batch are appended."""
    read, known = 0, score_range(selection)
    for batch in batches:
        scores = _numbers(columns.score, batch.column(columns.score), read)
        groups = _names(batch, columns.group)
        keeps, refused = keep_promised(selection, scores, groups)
        by_group, items = count_kept(selection, keeps, groups), None
        if columns.item is not None:
            items = count_items(selection, keeps, groups, _names(batch, columns.item))
        require_near(known, scores, "nothing is written", read)
        read += batch.num_rows
        outside = count_outside(known, scores)
        kept, left_out = int(keeps.sum()), int(refused.sum())
        counts.append(FilteredClaims(batch.num_rows, kept, outside, left_out, by_group, items))
        mask = pa.array(keeps)
        if columns.mark is None:
            yield batch.filter(mask)
        else:
            yield pa.RecordBatch.from_arrays([*batch.columns, mask], schema=schema)


def _all_items(counts: list[FilteredClaims]) -> ItemCounts:
    """The claims of each item in all batches."""
    total: ItemCounts = {}
    for each in counts:
        add_items(total, each.items or {})
    return total


def _claim_files(source: Path, target: Path) -> list[Path]:
    """The file, or the Parquet files of a folder or glob, none of which is the target."""
    if not is_in_parts(source):
        require_file(source)
        return [source]
    if is_in_storage(source):
        raise ValueError(
            f"{location(source)} is in object storage, and tether filter reads files of this "
            f"machine: copy them first, or use Selection.filter in Python"
        )
    if source.is_dir() and target.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"--out {target} lies in {source}, whose files are read: name another")
    from tether.scan.data_files import find_files

    found = [Path(file.path) for file in find_files(source)]
    files.require_other_file(target, *found)
    return found


@contextmanager
def _naming_one_of_many(path: Path, paths: list[Path]) -> Iterator[None]:
    """Say which file it is that cannot be read, or where one of several has a wrong value."""
    with naming_unreadable(path):
        try:
            yield
        except ValueError as error:
            if len(paths) == 1 or isinstance(error, (pa.ArrowException, UnicodeError)):
                raise
            raise ValueError(f"{path}: {error}") from error


def _described(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def _names(batch: Any, name: str | None) -> Any:
    """A column of names without missing ones; None for no column, or no rows."""
    if name is None or not batch.num_rows:
        return None
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"column {name!r} has {column.null_count} missing value(s)")
    return column.to_numpy(zero_copy_only=False)


def _numbers(name: str, column: Any, before: int) -> Any:
    """A column of finite numbers, those of a CSV file are text; errors count rows of the file."""
    if column.null_count:
        raise ValueError(f"column {name!r} has {column.null_count} missing value(s)")
    try:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        row, value = next((k, v) for k, v in enumerate(column.to_pylist()) if not _is_number(v))
        raise ValueError(
            f"column {name!r} must hold a number in every row, got {value!r} in row "
            f"{before + row + 1}"
        ) from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise ValueError(
            f"column {name!r} must hold finite scores, got {numbers[bad[0]]} in row "
            f"{before + int(bad[0]) + 1}"
        )
    return numbers


def _is_number(value: Any) -> bool:
    try:
        pa.array([value]).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _is_csv(path: Path) -> bool:
    if path.suffix not in (".parquet", ".csv"):
        raise ValueError(f"{path} must end in .parquet or .csv")
    return path.suffix in CSV_SUFFIXES


@contextmanager
def _batches(path: Path, is_csv: bool) -> Iterator[tuple[Any, Iterator[Any]]]:
    """The schema of a file and its batches."""
    if not is_csv:
        with parquet.ParquetFile(path) as file:
            yield file.schema_arrow, file.iter_batches(batch_size=ROWS_PER_BATCH)
        return
    with open_csv(path) as reader:
        names = reader.schema.names
    with open_csv(path, dict.fromkeys(names, pa.string())) as reader:
        yield reader.schema, iter(reader)


@contextmanager
def _writer(path: Path, schema: Any, is_csv: bool) -> Iterator[Any]:
    if is_csv:
        options = csv.WriteOptions(quoting_style="needed")
        with csv.CSVWriter(path, schema, write_options=options) as writer:
            yield writer
    else:
        with parquet.ParquetWriter(path, schema) as writer:
            yield writer
