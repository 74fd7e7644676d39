"""Reading an exported run group by group, and refusing what `export_run` cannot have written.

Sizes are checked before anything is read, so a file cannot use more memory than an honest one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute
from pyarrow import parquet

from tether._core import files
from tether.rounds.errors import StoreError
from tether.rounds.store import schema
from tether.rounds.store.codecs import RowCodecs
from tether.rounds.store.export_format import (
    COLUMNS_BY_KIND,
    COMPRESSION,
    KINDS,
    METADATA_KEY,
    export_schema,
)

MAX_ROWS_PER_GROUP = 2**16
MAX_BYTES_PER_GROUP = 2**27
MAX_METADATA_BYTES = 2**20
PLAIN_ENCODINGS = frozenset({"PLAIN", "RLE", "BIT_PACKED"})
"""Encodings whose values take no more memory than bytes in the file after decompression."""


@contextmanager
def readable_errors(path: str | Path) -> Iterator[None]:
    """Turn whatever a malformed file leads to into one ValueError."""
    try:
        yield
    except (StoreError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (
        *(pa.ArrowException, OSError, ArithmeticError, LookupError, AttributeError),
        *(RecursionError, TypeError, ValueError, UnicodeError, AssertionError),
    ) as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):
            raise
        message = " ".join(str(error).split())[:500] or type(error).__name__
        raise ValueError(f"{path} is not a complete export of a run: {message}") from error


class ExportFile:
    """An exported run: what its metadata say, and its row groups in order."""

    def __init__(self, path: str | Path) -> None:
        self.path = files.as_path("path", path)
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no file {self.path}")
        with readable_errors(self.path):
            self._file = parquet.ParquetFile(self.path, pre_buffer=False)
            about = self._read_metadata()
            self.heads = bytes.fromhex(about["heads"])
            self.signature = about["signature"]
            if not isinstance(self.signature, str | None):
                raise TypeError(f"signature must be text, got {self.signature!r}")
            self._check_sizes()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def groups(self) -> Iterator[tuple[str, pa.Table]]:
        """Kind and rows of each group, with the columns of that kind alone."""
        names = {"kind", *(name for names in COLUMNS_BY_KIND.values() for name in names)}
        found = self._file.schema_arrow
        if set(found.names) != names:
            self._refuse(f"it has the columns {', '.join(found.names)[:500]}")
        place = 0
        for number in range(self._file.num_row_groups):
            table = self._file.read_row_group(number, use_threads=False)
            table.validate(full=True)
            kind = self._kind(table)
            if KINDS.index(kind) < place:
                self._refuse(f"rows of kind {kind!r} are out of order")
            place = KINDS.index(kind)
            own = COLUMNS_BY_KIND[kind]
            for name in names - own - {"kind"}:
                if table[name].null_count != len(table):
                    self._refuse(f"rows of kind {kind!r} have something in column {name!r}")
            yield kind, table.select(sorted(own))
            del table
            pa.default_memory_pool().release_unused()

    def check_types(self, settings: Mapping[str, Any]) -> RowCodecs | None:
        """Check the types of all columns; how contexts and actions are encoded."""
        codecs = RowCodecs.from_dict(dict(settings)) if "actions" in settings else None
        found, expected = self._file.schema_arrow, export_schema(codecs)
        for field in expected:
            if found.field(field.name).type != field.type:
                self._refuse(
                    f"column {field.name!r} is {found.field(field.name).type}, expected "
                    f"{field.type}"
                )
        return codecs

    def _read_metadata(self) -> dict[str, Any]:
        text = (self._file.schema_arrow.metadata or {}).get(METADATA_KEY)
        if text is None:
            self._refuse("its metadata lack the run's version")
        if len(text) > MAX_METADATA_BYTES:
            self._refuse(f"its metadata have {len(text):,} bytes")
        about = json.loads(text)
        version = about["version"]
        if isinstance(version, bool) or not isinstance(version, int):
            raise TypeError(f"version must be an integer, got {version!r}")
        schema.check_version(version)
        return dict(about)

    def _check_sizes(self) -> None:
        about = self._file.metadata
        for number in range(about.num_row_groups):
            group = about.row_group(number)
            columns = [group.column(place) for place in range(group.num_columns)]
            size = sum(column.total_uncompressed_size for column in columns)
            if not 0 < group.num_rows <= MAX_ROWS_PER_GROUP or not 0 <= size <= MAX_BYTES_PER_GROUP:
                self._refuse(f"row group {number} has {group.num_rows:,} rows and {size:,} bytes")
            for column in columns:
                if set(column.encodings) - PLAIN_ENCODINGS or column.compression != COMPRESSION:
                    self._refuse(
                        f"row group {number} has the encodings {column.encodings} and the "
                        f"compression {column.compression}"
                    )

    def _kind(self, table: pa.Table) -> str:
        if not pa.types.is_string(table["kind"].type):
            self._refuse(f"column 'kind' is {table['kind'].type}, expected string")
        kinds = pa.compute.unique(table["kind"]).to_pylist()
        if len(kinds) != 1 or kinds[0] not in KINDS:
            self._refuse(f"a row group has rows of the kinds {kinds[:5]}")
        return str(kinds[0])

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(f"{self.path} was not written by tether export: {what}")
