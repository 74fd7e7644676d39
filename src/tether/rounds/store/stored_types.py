"""Whether every value in an SQLite file has the type of its column.

SQLite stores a value of any type in any column. A number that is read as an integer loses its
fraction, and text and bytes are digested alike, so the hash chain alone would not notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sql

from tether.rounds.store import schema

_STORAGE_CLASSES = (
    ((sql.Integer, sql.Boolean), "integer"),
    ((sql.Double,), "real"),
    ((sql.LargeBinary,), "blob"),
    ((sql.String,), "text"),
)


def find_wrong_types(connection: sql.Connection) -> Iterator[str]:
    """Columns with values of another type, one sentence for each; PostgreSQL has none."""
    if connection.dialect.name != "sqlite":
        return
    for table in schema.tables.sorted_tables:
        row = sql.literal_column(f"{table.name}.rowid", sql.BigInteger)
        first = [sql.func.min(sql.case((_is_wrong(column), row))) for column in table.c]
        for column, found in zip(
            table.c, connection.execute(sql.select(*first)).one(), strict=True
        ):
            if found is not None:
                kind = _storage_class(column)
                yield f"{table.name}.{column.name} is not of type {kind} in row {found}"


def _is_wrong(column: sql.Column[Any]) -> sql.ColumnElement[bool]:
    accepted = [_storage_class(column), *(["null"] if column.nullable else [])]
    return sql.func.typeof(column).not_in(accepted)


def _storage_class(column: sql.Column[Any]) -> str:
    return next(name for kinds, name in _STORAGE_CLASSES if isinstance(column.type, kinds))
