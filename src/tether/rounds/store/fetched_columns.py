"""Columns of very many rows, read through the driver as quickly as it can."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether.rounds.store import chain, schema
from tether.rounds.store.writer import ACTIONS, OBSERVATIONS

COLUMNS = {ACTIONS: chain.ACTION_COLUMNS, OBSERVATIONS: chain.OBSERVATION_COLUMNS}
"""The columns of actions and of observations, with their kinds."""
KEYS: dict[str, sql.Column[Any]] = {
    ACTIONS: schema.actions.c.id,
    OBSERVATIONS: schema.observations.c.number,
}
"""By which their rows are numbered."""

Columns = dict[str, Sequence[Any]]
"""Rows of one table as columns."""


def fetch_columns(
    connection: sql.Connection, kind: str, after: int, last: int
) -> tuple[Columns, int]:
    """The actions or observations with ids or numbers from `after` (without it) to `last`.

    Also how many there are.
    """
    key, kinds = KEYS[kind], COLUMNS[kind]
    query = sql.select(*(key.table.c[name] for name in kinds)).where(key > after, key <= last)
    with _without_collection():
        rows = fetch_rows(connection, query.order_by(key))
        values = zip(*rows, strict=True) if rows else [()] * len(kinds)
        read = zip(kinds.items(), values, strict=True)
        return {name: _typed(column, kind) for (name, kind), column in read}, len(rows)


def fetch_rows(connection: sql.Connection, query: sql.Select[Any]) -> list[Any]:
    """The rows of a query as the driver returns them, which is much faster for very many."""
    text = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
    with connection.exec_driver_sql(text) as result:
        try:
            return list(result.cursor.fetchall())
        except connection.dialect.loaded_dbapi.Error as error:
            raise sql.exc.OperationalError(text, None, error) from error


def _typed(column: Sequence[Any], kind: str) -> Any:
    if kind == chain.CONTENT:
        return column
    return np.array(column, dtype=np.int64 if kind == chain.INTEGERS else np.float64)


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for garbage in the meantime: among so many new tuples it takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
