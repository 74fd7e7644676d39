"""Reading tables of any size in pages that are bounded in rows and in bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sql

ROWS_PER_PAGE = 2_048
BYTES_PER_PAGE = 2**20
"""A page has at most so many rows and bytes, unless its only row has more bytes."""

Page = list[dict[str, Any]]


def read_pages(
    connection: sql.Connection,
    columns: Mapping[str, sql.ColumnElement[Any]],
    source: sql.FromClause,
    key: Sequence[sql.ColumnElement[Any]],
    *,
    after: Any = None,
    until: Any = None,
) -> Iterator[Page]:
    """Rows in the order of their key, one page after the other, with bytes as bytes.

    They are those after one key and up to another, if these are given.
    """
    selected = sql.select(*(column.label(name) for name, column in columns.items()))
    place = key[0] if len(key) == 1 else sql.tuple_(*key)
    for first, last in _page_limits(connection, columns.values(), source, key, after, until):
        query = selected.select_from(source).where(place >= first, place <= last).order_by(*key)
        yield [_plain(row) for row in connection.execute(query).mappings()]


def read_table_pages(connection: sql.Connection, table: sql.Table) -> Iterator[Page]:
    """A whole table in the order of its primary key."""
    return read_pages(connection, dict(table.c), table, list(table.primary_key))


def _page_limits(
    connection: sql.Connection,
    columns: Any,
    source: sql.FromClause,
    key: Sequence[sql.ColumnElement[Any]],
    after: Any,
    until: Any,
) -> Iterator[tuple[Any, Any]]:
    """The first and last key of each page, from the lengths of what is in it."""
    varying = [column for column in columns if isinstance(column.type, (sql.Text, sql.LargeBinary))]
    size = sum((sql.func.coalesce(sql.func.length(each), 0) for each in varying), sql.literal(0))
    place = key[0] if len(key) == 1 else sql.tuple_(*key)
    query = sql.select(*key, size).select_from(source).order_by(*key).limit(ROWS_PER_PAGE)
    if until is not None:
        query = query.where(place <= until)
    while True:
        rest = query if after is None else query.where(place > after)
        rows = connection.execute(rest).fetchall()
        if not rows:
            return
        first, total = 0, 0
        for k, row in enumerate(rows):
            if k > first and total + row[-1] > BYTES_PER_PAGE:
                yield _key(rows[first]), _key(rows[k - 1])
                first, total = k, 0
            total += row[-1]
        after = _key(rows[-1])
        yield _key(rows[first]), after


def _key(row: Any) -> Any:
    values = tuple(row[:-1])
    return values[0] if len(values) == 1 else values


def _plain(row: sql.RowMapping) -> dict[str, Any]:
    return {
        name: bytes(value) if isinstance(value, memoryview) else value
        for name, value in row.items()
    }
