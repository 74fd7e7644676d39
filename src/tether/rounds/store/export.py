"""A run as one table in a Parquet file, and back.

A row is either an action, with one column of scores for each round's policy, or a draw that a
calibration used. Settings, rounds, alarms and failures are in the file's metadata under "tether".
Every calibration can be recomputed from this file alone.
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

from tether._core import files, records
from tether._core.contexts import labels
from tether.policies.shortlist_rows import ShortlistRows
from tether.rounds.errors import StoreError
from tether.rounds.store import schema
from tether.rounds.store.codecs import (
    NO_CONTENT,
    NUMBER_ROWS,
    Codec,
    RowCodecs,
    listed_candidates,
    unlisted_candidates,
)
from tether.rounds.store.database import Store
from tether.rounds.store.queries import read_all, read_column, read_settings
from tether.rounds.store.rows import Rows, read_codecs

ACTION_ROW, DRAW_ROW = "action", "draw"
"""What a row of the table is, in the column "kind"."""
ACTION_COLUMNS = ("round", "served", "calibration", "log_safe", "log_optimized", "log_prob")
DRAW_COLUMNS = ("log_safe", "log_optimized", "log_mix")


def export_run(store: str | Path, path: str | Path, *, overwrite: bool = False) -> None:
    """Write the run in a store to a Parquet file.

    Parameters
    ----------
    store : str or pathlib.Path
        The path or URL of an existing store.
    path : str or pathlib.Path
        The Parquet file to write, for its owner alone to read (mode 0600).
    overwrite : bool, default False
        Whether to replace an existing file. A store is never replaced.

    Raises
    ------
    FileExistsError
        If there is such a file and `overwrite` is false, or it is a store.
    StoreError
        If there is no store, or it cannot be read.
    """
    files.require_target(path, overwrite=overwrite)
    opened = Store(store, create=False)
    try:
        with opened.reading() as connection:
            table = _table(connection)
    finally:
        opened.close()
    with files.replacing(path, overwrite=overwrite) as temporary:
        parquet.write_table(table, temporary)


def import_run(path: str | Path, store: str | Path) -> None:
    """Fill a new store with what `export_run` wrote.

    Parameters
    ----------
    path : str or pathlib.Path
        A Parquet file written by `export_run`, also by the versions before.
    store : str or pathlib.Path
        The path or URL of the new store.

    Raises
    ------
    ValueError
        If the file was not written by `export_run`, or by a newer version.
    StoreError
        If the store already holds a run, or cannot be written.
    """
    table = parquet.read_table(path)
    metadata = (table.schema.metadata or {}).get(b"tether")
    if metadata is None:
        raise ValueError(f"{path} was not written by tether export: it lacks the run's settings")
    run = json.loads(metadata)
    if run["version"] > schema.VERSION:
        raise ValueError(
            f"{path} has version {run['version']}, but this tether supports versions up to "
            f"{schema.VERSION}: upgrade tether"
        )
    if run["version"] < 3:
        run, table = _rename_to_version_3(run, table)
    if run["version"] < 4:
        run["settings"][schema.SHORTLIST_SETTING] = None
        for row in run["rounds"]:
            row["calibration"] = schema.calibration_with_terms(row["calibration"])
            row["log_psi_error"] = None
    opened = Store(store)
    try:
        with opened.writing() as connection:
            if read_settings(connection):
                raise StoreError(f"{opened.name} holds a run already; import into a new store")
            _fill(connection, table, run)
    finally:
        opened.close()


def _rename_to_version_3(run: dict[str, Any], table: pa.Table) -> tuple[dict[str, Any], pa.Table]:
    """An export of version 1 or 2 with the present names."""
    names = {"last_report": "last_observation"}
    rounds = [schema.with_new_keys(row, names) for row in run["rounds"]]
    for row in rounds:
        row["calibration"] = schema.calibration_with_new_keys(row["calibration"])
    renamed = {
        "version": 3,
        "settings": schema.with_new_keys(run["terms"], schema.RENAMED_SETTINGS),
        "rounds": rounds,
        "alarms": [schema.with_new_keys(row, names) for row in run["alarms"]],
        "failures": run.get("failures", []),
    }
    columns = {"report": "observation"}
    return renamed, table.rename_columns([columns.get(name, name) for name in table.column_names])


def _table(connection: sql.Connection) -> pa.Table:
    run: dict[str, Any] = {
        "version": schema.VERSION,
        "settings": read_settings(connection),
        "rounds": read_all(connection, schema.rounds),
        "alarms": read_all(connection, schema.alarms),
        "failures": read_all(connection, schema.failures),
    }
    rows = Rows()
    rows.refresh(connection)
    draws = [_draws(connection, row["number"]) for row in run["rounds"]]
    actions = (
        _actions(connection, rows) if len(rows) else pa.table({"kind": pa.array([], pa.string())})
    )
    table = pa.concat_tables([actions, *draws], promote_options="default")
    return table.replace_schema_metadata({"tether": json.dumps(records.encode(run))})


def _actions(connection: sql.Connection, rows: Rows) -> pa.Table:
    codecs = read_codecs(connection)
    table = schema.observations
    withdrawn = sql.select(table.c.action, table.c.reason).where(table.c.reason.is_not(None))
    reasons = {action: reason for action, reason in connection.execute(withdrawn)}
    ids = np.arange(1, 1 + len(rows))
    columns: dict[str, Any] = {
        "kind": pa.array([ACTION_ROW] * len(rows)),
        "id": pa.array(ids),
        **_contexts(codecs, rows.contexts),
        "action": _to_arrow(codecs.action, "actions", rows.actions),
        "loss": _null_for_nan(rows.loss),
        "reward": _null_for_nan(rows.reward),
        "observation": pa.array(rows.observation, mask=rows.observation == 0),
        "reason": pa.array([reasons.get(number) for number in ids.tolist()], pa.string()),
    }
    columns |= {name: _null_for_nan(getattr(rows, name)) for name in ACTION_COLUMNS}
    if not isinstance(rows.contexts, int):
        columns["label"] = pa.array(labels(rows.contexts))
    place = np.flatnonzero(rows.calibration)
    table = schema.columns
    stored = (
        sql.select(table.c.round, table.c.name).distinct().order_by(table.c.round, table.c.name)
    )
    for number, name in connection.execute(stored):
        if not name.startswith("draws_"):
            flat = read_column(connection, number, name)
            columns[_column_name(number, name)] = _scores(
                flat, name, place, len(rows), connection, number
            )
    return pa.table(columns)


def _contexts(codecs: RowCodecs, contexts: Any) -> dict[str, pa.Array]:
    """Contexts, and their candidates in a run on shortlists, where the action is a position."""
    if codecs.candidates is None:
        return {"context": _to_arrow(codecs.context, "contexts", contexts)}
    candidates = listed_candidates(contexts.candidates)
    return {
        "context": _to_arrow(codecs.context, "contexts", contexts.contexts),
        "candidates": _to_arrow(codecs.candidates, "candidates", candidates),
    }


def _scores(
    flat: Any, name: str, place: NDArray[Any], rows: int, connection: sql.Connection, number: int
) -> pa.Array:
    """A column of scores, null in rows without one; a list per row for scores of every action."""
    table = schema.columns
    where = (table.c.round == number, table.c.name == name)
    count = int(connection.scalar(sql.select(sql.func.sum(table.c.count)).where(*where)) or 0)
    scored = place[:count]
    mask = np.ones(rows, bool)
    mask[scored] = False
    width = len(flat) // count if count else 1
    if width == 1 and not name.endswith("_all"):
        values = np.full(rows, np.nan)
        values[scored] = flat
        return pa.array(values, mask=mask)
    sizes = np.zeros(rows + 1, np.int32)
    sizes[scored + 1] = width
    return pa.ListArray.from_arrays(
        pa.array(np.cumsum(sizes, dtype=np.int32)), pa.array(flat), mask=pa.array(mask)
    )


def _draws(connection: sql.Connection, number: int) -> pa.Table:
    columns = {name: read_column(connection, number, f"draws_{name}") for name in DRAW_COLUMNS}
    rows = len(columns["log_safe"])
    if not rows:
        return pa.table({"kind": pa.array([], pa.string())})
    exported: dict[str, Any] = {
        "kind": pa.array([DRAW_ROW] * rows),
        "round": pa.array(np.full(rows, number, np.int32)),
    }
    exported |= {name: pa.array(values) for name, values in columns.items() if len(values)}
    from_safe = read_column(connection, number, "draws_from_safe").astype(bool)
    exported["source"] = pa.array(np.where(from_safe, "safe", "optimized"))
    context = read_column(connection, number, "draws_context")
    if len(context):
        exported["label"] = pa.array(context.view(np.int64))
    return pa.table(exported)


def _fill(connection: sql.Connection, table: pa.Table, run: dict[str, Any]) -> None:
    write_settings(connection, run["settings"])
    _fill_table(connection, schema.rounds, run["rounds"])
    _fill_table(connection, schema.alarms, run["alarms"])
    actions = table.filter(pa.compute.equal(table["kind"], ACTION_ROW))
    if len(actions):
        _fill_actions(connection, actions)
    _fill_table(connection, schema.failures, run["failures"])
    for row in run["rounds"]:
        of_round = pa.compute.and_(
            pa.compute.equal(table["kind"], DRAW_ROW),
            pa.compute.equal(table["round"], row["number"]),
        )
        drawn = table.filter(of_round)
        if len(drawn):
            _fill_draws(connection, drawn, row["number"])


def _fill_table(connection: sql.Connection, table: sql.Table, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        decoded = row | {key: records.decode(row[key]) for key in ("log_beta",) if key in row}
        connection.execute(table.insert().values(**decoded))


def _fill_actions(connection: sql.Connection, actions: pa.Table) -> None:
    codecs = read_codecs(connection)
    columns = {name: actions[name].to_pylist() for name in ("id", *ACTION_COLUMNS)}
    contexts = _from_arrow(codecs.context, actions["context"])
    if codecs.candidates is not None:
        candidates = _from_arrow(codecs.candidates, actions["candidates"])
        contexts = ShortlistRows(contexts, unlisted_candidates(candidates))
    columns |= codecs.encode(contexts, _from_arrow(codecs.action, actions["action"]))
    connection.execute(schema.actions.insert(), _as_rows(columns))
    observed = actions.filter(pa.compute.is_valid(actions["observation"])).sort_by("observation")
    if len(observed):
        sources = {"action": "id", "number": "observation"}
        sources |= {name: name for name in ("loss", "reward", "reason")}
        observations = {name: observed[source].to_pylist() for name, source in sources.items()}
        connection.execute(schema.observations.insert(), _as_rows(observations))
    for column_name in actions.column_names:
        name, bracket, number = column_name.rstrip("]").partition("[")
        if bracket:
            scored = actions[column_name].combine_chunks().drop_null()
            values = scored.flatten() if pa.types.is_list(scored.type) else scored
            _write_scores(connection, int(number), name, values.to_numpy(), len(scored))


def _write_scores(
    connection: sql.Connection, number: int, name: str, flat: Any, count: int
) -> None:
    if count:
        write_column(connection, number, name, 0, flat.reshape(count, -1))


def _fill_draws(connection: sql.Connection, drawn: pa.Table, number: int) -> None:
    columns: dict[str, Any] = {
        name: drawn[name].to_numpy() for name in DRAW_COLUMNS if name in drawn.column_names
    }
    columns = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    columns["from_safe"] = np.array(drawn["source"].to_pylist()) == "safe"
    if "label" in drawn.column_names and drawn["label"].null_count == 0:
        columns["context"] = drawn["label"].to_numpy().astype(np.int64).view(np.float64)
    for name, values in columns.items():
        write_column(connection, number, f"draws_{name}", 0, values)


def _as_rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column_name(number: int, name: str) -> str:
    return f"{name}[{number}]"


def _null_for_nan(values: NDArray[Any]) -> pa.Array:
    """An Arrow array in which NaN is null; minus infinity is kept."""
    if values.dtype.kind != "f":
        return pa.array(values)
    return pa.array(values, mask=np.isnan(values))


def _to_arrow(codec: Codec, name: str, values: Any) -> pa.Array:
    if codec.kind == NO_CONTENT:
        return pa.nulls(values)
    if codec.kind == NUMBER_ROWS:
        if not codec.shape:
            return pa.array(values)
        width = int(np.prod(codec.shape))
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), width)
    return pa.array([(row or b"").decode() for row in codec.encode(name, values)], pa.string())


def _from_arrow(codec: Codec, column: pa.ChunkedArray) -> Any:
    if codec.kind == NO_CONTENT:
        return len(column)
    array = column.combine_chunks()
    if codec.kind == NUMBER_ROWS:
        flat = (array.flatten() if codec.shape else array).to_numpy(zero_copy_only=False)
        return flat.astype(codec.dtype).reshape(len(column), *codec.shape)
    return codec.decode([text.encode() for text in array.to_pylist()])
