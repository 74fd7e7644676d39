"""A whole run as one table in one Parquet file, and back.

A row is an action, with its scores under every round's policy in columns of their own, or a draw
that a calibration used. Terms, rounds, alarms and failures are in the file's metadata under
"tether". What a round calibrated can be computed again from this file alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import sqlalchemy as sql
from numpy.typing import NDArray
from pyarrow import parquet

from tether._core import records
from tether._core.contexts import labels
from tether.rounds.errors import StoreError
from tether.rounds.store import schema
from tether.rounds.store.codec import NOTHING, NUMBERS, Codec
from tether.rounds.store.rows import Rows, read_codecs
from tether.rounds.store.store import (
    Store,
    read_all,
    read_column,
    read_terms,
    write_column,
    write_terms,
)

ACTION, DRAW = "action", "draw"
PLAIN = ("round", "served", "calibration", "log_safe", "log_optimized", "log_prob")
DRAWN = ("log_safe", "log_optimized", "log_mix")


def export_run(store: str | Path, path: str | Path) -> None:
    """Write the run in a store as a Parquet file."""
    opened = Store(store, create=False)
    try:
        with opened.reading() as connection:
            table = _table(connection)
    finally:
        opened.close()
    parquet.write_table(table, path)


def import_run(path: str | Path, store: str | Path) -> None:
    """Fill a new store with what `export_run` wrote; one that holds a run already is refused."""
    table = parquet.read_table(path)
    kept = (table.schema.metadata or {}).get(b"tether")
    if kept is None:
        raise ValueError(f"{path} was not written by tether export: it lacks the run's terms")
    about = json.loads(kept)
    if not schema.readable(about["version"]):
        raise ValueError(
            f"{path} has version {about['version']} and this tether reads {schema.VERSION}: import "
            f"it with the tether that wrote it, and open that store with this one"
        )
    opened = Store(store)
    try:
        with opened.writing() as connection:
            if read_terms(connection):
                raise StoreError(f"{opened.name} holds a run already; import into a new store")
            _fill(connection, table, about)
    finally:
        opened.close()


def _table(connection: sql.Connection) -> pa.Table:
    about: dict[str, Any] = {
        "version": schema.VERSION,
        "terms": read_terms(connection),
        "rounds": read_all(connection, schema.rounds),
        "alarms": read_all(connection, schema.alarms),
        "failures": read_all(connection, schema.failures),
    }
    rows = Rows()
    rows.refresh(connection)
    draws = [_draws(connection, row["number"]) for row in about["rounds"]]
    done = (
        _actions(connection, rows) if len(rows) else pa.table({"kind": pa.array([], pa.string())})
    )
    table = pa.concat_tables([done, *draws], promote_options="default")
    return table.replace_schema_metadata({"tether": json.dumps(records.encode(about))})


def _actions(connection: sql.Connection, rows: Rows) -> pa.Table:
    for_contexts, for_actions = read_codecs(connection)
    table = schema.reports
    told = sql.select(table.c.action, table.c.reason).where(table.c.reason.is_not(None))
    reasons = {action: reason for action, reason in connection.execute(told)}
    ids = np.arange(1, 1 + len(rows))
    columns: dict[str, Any] = {
        "kind": pa.array([ACTION] * len(rows)),
        "id": pa.array(ids),
        "context": _to_arrow(for_contexts, "contexts", rows.contexts),
        "action": _to_arrow(for_actions, "actions", rows.actions),
        "loss": _numbers(rows.loss),
        "reward": _numbers(rows.reward),
        "report": pa.array(rows.report, mask=rows.report == 0),
        "reason": pa.array([reasons.get(number) for number in ids.tolist()], pa.string()),
    }
    columns |= {name: _numbers(getattr(rows, name)) for name in PLAIN}
    if for_contexts.kind != NOTHING:
        columns["label"] = pa.array(labels(rows.contexts))
    place = np.flatnonzero(rows.calibration)
    table = schema.columns
    stored = (
        sql.select(table.c.round, table.c.name).distinct().order_by(table.c.round, table.c.name)
    )
    for number, name in connection.execute(stored):
        if not name.startswith("draws_"):
            flat = read_column(connection, number, name)
            columns[_title(number, name)] = _scores(
                flat, name, place, len(rows), connection, number
            )
    return pa.table(columns)


def _scores(
    flat: Any, name: str, place: NDArray[Any], rows: int, connection: sql.Connection, number: int
) -> pa.Array:
    """A column of scores in the rows that have it; a list in each where it is of every action."""
    table = schema.columns
    where = (table.c.round == number, table.c.name == name)
    count = int(connection.scalar(sql.select(sql.func.sum(table.c.count)).where(*where)) or 0)
    scored = place[:count]
    mask = np.ones(rows, bool)
    mask[scored] = False
    if not name.endswith("_all"):
        values = np.full(rows, np.nan)
        values[scored] = flat
        return pa.array(values, mask=mask)
    width = len(flat) // count
    sizes = np.zeros(rows + 1, np.int32)
    sizes[scored + 1] = width
    return pa.ListArray.from_arrays(
        pa.array(np.cumsum(sizes, dtype=np.int32)), pa.array(flat), mask=pa.array(mask)
    )


def _draws(connection: sql.Connection, number: int) -> pa.Table:
    columns = {name: read_column(connection, number, f"draws_{name}") for name in DRAWN}
    rows = len(columns["log_safe"])
    if not rows:
        return pa.table({"kind": pa.array([], pa.string())})
    kept: dict[str, Any] = {
        "kind": pa.array([DRAW] * rows),
        "round": pa.array(np.full(rows, number, np.int32)),
    }
    kept |= {name: pa.array(values) for name, values in columns.items() if len(values)}
    from_safe = read_column(connection, number, "draws_from_safe").astype(bool)
    kept["source"] = pa.array(np.where(from_safe, "safe", "optimized"))
    context = read_column(connection, number, "draws_context")
    if len(context):
        kept["label"] = pa.array(context.view(np.int64))
    return pa.table(kept)


def _fill(connection: sql.Connection, table: pa.Table, about: dict[str, Any]) -> None:
    write_terms(connection, about["terms"])
    _fill_table(connection, schema.rounds, about["rounds"])
    _fill_table(connection, schema.alarms, about["alarms"])
    done = table.filter(pa.compute.equal(table["kind"], ACTION))
    if len(done):
        _fill_actions(connection, done)
    _fill_table(connection, schema.failures, about.get("failures", []))
    for row in about["rounds"]:
        mine = pa.compute.and_(
            pa.compute.equal(table["kind"], DRAW), pa.compute.equal(table["round"], row["number"])
        )
        drawn = table.filter(mine)
        if len(drawn):
            _fill_draws(connection, drawn, row["number"])


def _fill_table(connection: sql.Connection, table: sql.Table, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        decoded = row | {key: records.decode(row[key]) for key in ("log_beta",) if key in row}
        connection.execute(table.insert().values(**decoded))


def _fill_actions(connection: sql.Connection, done: pa.Table) -> None:
    for_contexts, for_actions = read_codecs(connection)
    columns = {name: done[name].to_pylist() for name in ("id", *PLAIN)}
    columns["context"] = for_contexts.encode("contexts", _from_arrow(for_contexts, done["context"]))
    columns["action"] = for_actions.encode("actions", _from_arrow(for_actions, done["action"]))
    connection.execute(schema.actions.insert(), _as_rows(columns))
    told = done.filter(pa.compute.is_valid(done["report"])).sort_by("report")
    if len(told):
        named = {"action": "id", "number": "report", "loss": "loss", "reward": "reward"}
        reports = {name: told[column].to_pylist() for name, column in named.items()}
        reports["reason"] = told["reason"].to_pylist()
        connection.execute(schema.reports.insert(), _as_rows(reports))
    for title in done.column_names:
        name, bracket, number = title.rstrip("]").partition("[")
        if bracket:
            scored = done[title].combine_chunks().drop_null()
            values = scored.flatten() if name.endswith("_all") else scored
            _write_scores(connection, int(number), name, values.to_numpy(), len(scored))


def _write_scores(
    connection: sql.Connection, number: int, name: str, flat: Any, count: int
) -> None:
    if count:
        write_column(connection, number, name, 0, flat.reshape(count, -1))


def _fill_draws(connection: sql.Connection, drawn: pa.Table, number: int) -> None:
    columns: dict[str, Any] = {
        name: drawn[name].to_numpy() for name in DRAWN if name in drawn.column_names
    }
    columns = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    columns["from_safe"] = np.array(drawn["source"].to_pylist()) == "safe"
    if "label" in drawn.column_names and drawn["label"].null_count == 0:
        columns["context"] = drawn["label"].to_numpy().astype(np.int64).view(np.float64)
    for name, values in columns.items():
        write_column(connection, number, f"draws_{name}", 0, values)


def _as_rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _title(number: int, name: str) -> str:
    return f"{name}[{number}]"


def _numbers(values: NDArray[Any]) -> pa.Array:
    """An array in which NaN is null, and minus infinity stays what it is."""
    if values.dtype.kind != "f":
        return pa.array(values)
    return pa.array(values, mask=np.isnan(values))


def _to_arrow(codec: Codec, name: str, values: Any) -> pa.Array:
    if codec.kind == NOTHING:
        return pa.nulls(values)
    if codec.kind == NUMBERS:
        if not codec.shape:
            return pa.array(values)
        width = int(np.prod(codec.shape))
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), width)
    return pa.array([(row or b"").decode() for row in codec.encode(name, values)], pa.string())


def _from_arrow(codec: Codec, column: pa.ChunkedArray) -> Any:
    if codec.kind == NOTHING:
        return len(column)
    whole = column.combine_chunks()
    if codec.kind == NUMBERS:
        flat = (whole.flatten() if codec.shape else whole).to_numpy(zero_copy_only=False)
        return flat.astype(codec.dtype).reshape(len(column), *codec.shape)
    return codec.decode([text.encode() for text in whole.to_pylist()])
