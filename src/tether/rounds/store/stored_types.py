"""Whether every value in a store has the type of its column, and every key is there once.

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


def find_repeated_keys(connection: sql.Connection) -> Iterator[str]:
    """Keys that are there twice, in the tables whose rows the hash chain does not count.

    The database prevents it as long as nobody has changed its tables.
    """
    for table in (schema.lanes, schema.kept):
        key = next(iter(table.primary_key))
        query = sql.select(key).group_by(key).having(sql.func.count() > 1)
        for value in connection.scalars(query.order_by(key)):
            yield f"{table.name} has {value!r} twice"


def _is_wrong(column: sql.Column[Any]) -> sql.ColumnElement[bool]:
    accepted = [_storage_class(column), *(["null"] if column.nullable else [])]
    return sql.func.typeof(column).not_in(accepted)


def _storage_class(column: sql.Column[Any]) -> str:
    return next(name for kinds, name in _STORAGE_CLASSES if isinstance(column.type, kinds))
