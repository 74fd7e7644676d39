"""A run as one Parquet file, written page by page: at most about 200 MB of memory at any size.

Everything is in the file but the state of the monitors, which follows from the rest. So a run can
be restored from it, its hash chain checked, and every calibration recomputed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sql
from pyarrow import parquet

from tether._core import files
from tether._version import __version__
from tether.rounds.errors import StoreError, TamperedError
from tether.rounds.store import schema
from tether.rounds.store.arrow_content import to_arrow
from tether.rounds.store.codecs import RowCodecs
from tether.rounds.store.database import PATIENCE_FOR_COPIES, Store
from tether.rounds.store.export_format import (
    ACTION,
    ACTION_TYPES,
    COMPRESSION,
    CONTENT_COLUMNS,
    ENTRY,
    ENTRY_TYPE,
    METADATA_KEY,
    OBSERVATION,
    OBSERVATION_TYPES,
    POLICY,
    RECORDS,
    SCORES,
    SCORES_TYPE,
    SETTING,
    digest_heads,
    export_schema,
    record_to_json,
)
from tether.rounds.store.queries import read_all, read_settings
from tether.rounds.store.table_pages import Page, read_pages, read_table_pages

ROWS_PER_GROUP = 2**15
BYTES_PER_GROUP = 2**20
"""How many rows, and about how many bytes, the file has in a row group."""
CONTENT_BYTES_PER_ROW = 2**20
"""How many bytes of a policy go into one row of an export."""

Arrays = dict[str, pa.Array]


def export_run(
    store: str | Path,
    path: str | Path,
    *,
    overwrite: bool = False,
    sign: Callable[[bytes], str] | None = None,
) -> None:
    """Write the run in a store to a Parquet file.

    The file is written completely or not at all. The run may be written meanwhile: the file holds
    it as it was at one moment.

    Parameters
    ----------
    store : str or pathlib.Path
        The path or URL of an existing store.
    path : str or pathlib.Path
        The Parquet file to write.
    overwrite : bool, default False
        Whether to replace an existing file; a store is never replaced.
    sign : callable, optional
        A function from bytes, the digest of the heads of all lanes, to a signature. It is kept in
        the file, for `verify_export`.

    Raises
    ------
    StoreError
        If there is no store, or it cannot be read.
    OSError
        If the file exists, or cannot be written.
    """
    files.require_target(path, overwrite=overwrite)
    opened = Store(store, create=False)
    try:
        with (
            files.replacing(path, overwrite=overwrite) as temporary,
            opened.reading(patience=PATIENCE_FOR_COPIES) as connection,
        ):
            settings = read_settings(connection)
            if not settings:
                raise StoreError(f"{opened.name} holds no run of tether yet")
            try:
                _write(connection, settings, temporary, sign)
            except (pa.ArrowException, ValueError) as error:  # not what tether has written
                raise TamperedError(f"{opened.name} cannot be exported: {error}") from error
    finally:
        opened.close()


def _write(
    connection: sql.Connection,
    settings: dict[str, Any],
    path: Path,
    sign: Callable[[bytes], str] | None,
) -> None:
    codecs = RowCodecs.from_dict(settings) if "actions" in settings else None
    heads = digest_heads(read_all(connection, schema.lanes))
    about = {
        "version": schema.VERSION,
        "tether": __version__,
        "heads": heads.hex(),
        "signature": None if sign is None else sign(heads),
    }
    layout = export_schema(codecs).with_metadata({METADATA_KEY: json.dumps(about)})
    # Plain values: what is read back is bit by bit what was written, and no larger than it says.
    # Snappy needs no memory of its own, unlike zstd for each column.
    options: dict[str, Any] = {"use_dictionary": False, "compression": COMPRESSION}
    with parquet.ParquetWriter(path, layout, write_statistics=["kind", "id"], **options) as writer:
        for group in _row_groups(_pages(connection, codecs), layout):
            writer.write_table(group, row_group_size=len(group))
            pa.default_memory_pool().release_unused()


def _row_groups(pages: Iterator[tuple[str, Arrays]], layout: pa.Schema) -> Iterator[pa.Table]:
    """Pages of the same kind together, as long as they are small."""
    last_kind = ""
    waiting: list[Any] = []
    for kind, arrays in pages:
        rows = len(next(iter(arrays.values())))
        arrays["kind"] = pa.repeat(pa.scalar(kind), rows)
        columns = [arrays.get(field.name, pa.nulls(rows, field.type)) for field in layout]
        page = pa.table(columns, schema=layout)
        total_rows = sum(len(each) for each in waiting) + rows
        total_bytes = sum(each.nbytes for each in waiting) + page.nbytes
        is_large = total_rows > ROWS_PER_GROUP or total_bytes > BYTES_PER_GROUP
        if waiting and (kind != last_kind or is_large):
            yield pa.concat_tables(waiting)
            waiting = []
        last_kind = kind
        waiting.append(page)
    if waiting:
        yield pa.concat_tables(waiting)


def _pages(connection: sql.Connection, codecs: RowCodecs | None) -> Iterator[tuple[str, Arrays]]:
    """The columns of rows of one kind, page by page in the order of the file."""
    for kind, table in RECORDS.items():
        for page in read_table_pages(connection, table):
            if kind == POLICY:
                yield from ((kind, arrays) for row in page for arrays in _policy(row))
                continue
            rows = [row for row in page if (kind, row.get("name")) != (SETTING, "version")]
            if rows:
                yield kind, {"record": pa.array([record_to_json(row) for row in rows])}
    for page in read_table_pages(connection, schema.entries):
        yield ENTRY, {"entry": _struct(ENTRY_TYPE, page)}
    for page in read_table_pages(connection, schema.actions):
        yield ACTION, _actions(page, codecs)
    for page in _observation_pages(connection):
        types = {"id": ACTION_TYPES["id"], **OBSERVATION_TYPES}
        yield OBSERVATION, _arrays(page, types)
    for page in read_table_pages(connection, schema.columns):
        for row in page:
            row["values"] = np.frombuffer(row["values"], dtype="<f8")
        yield SCORES, {"scores": _struct(SCORES_TYPE, page)}


def _policy(row: dict[str, Any]) -> Iterator[Arrays]:
    """A policy in parts of a bounded size, each with the same record."""
    content = row.pop("content")
    for begin in range(0, max(1, len(content)), CONTENT_BYTES_PER_ROW):
        part = content[begin : begin + CONTENT_BYTES_PER_ROW]
        yield {"record": pa.array([record_to_json(row)]), "content": pa.array([part], pa.binary())}


def _observation_pages(connection: sql.Connection) -> Iterator[Page]:
    table = schema.observations
    columns = {"id": table.c.action, "observation": table.c.number}
    columns |= {name: table.c[name] for name in ("which", "loss", "reward", "reason")}
    return read_pages(connection, columns, table, [table.c.number])


def _actions(page: Page, codecs: RowCodecs | None) -> Arrays:
    arrays = _arrays(page, ACTION_TYPES)
    for name in CONTENT_COLUMNS:
        arrays[name] = to_arrow(name, getattr(codecs, name, None), [row[name] for row in page])
    return arrays


def _arrays(page: Page, types: dict[str, pa.DataType]) -> Arrays:
    return {name: pa.array([row[name] for row in page], kind) for name, kind in types.items()}


def _struct(kind: pa.StructType, page: Page) -> pa.StructArray:
    fields = [pa.array([row[field.name] for row in page], field.type) for field in kind]
    return pa.StructArray.from_arrays(fields, fields=list(kind))
