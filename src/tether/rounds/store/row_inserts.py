"""Adding rows to the large tables, in as few statements as the database allows.

PostgreSQL takes many rows by COPY, which is several times cheaper for both sides than one INSERT
for each. One row, its entry in the hash chain and the new state of its lane go in one statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sql
from sqlalchemy import exc

from tether.rounds.store import schema
from tether.rounds.store.lanes import Lane, lane_values, write_lane

Columns = Mapping[str, Sequence[Any]]


def insert_with_entry(
    connection: sql.Connection,
    table: sql.Table,
    columns: Columns,
    entry: Mapping[str, Any],
    to: Lane,
    *,
    through_driver: bool = False,
) -> None:
    """Add rows of a table, the entry that covers them, and how far their lane has come with it.

    `through_driver`: the driver of SQLite takes the values as they are, and nothing checks them.
    """
    if connection.dialect.name != "postgresql" or not to.is_stored:
        if through_driver and connection.dialect.name == "sqlite":
            _insert_through_driver(connection, table, columns)
        else:
            connection.execute(table.insert(), _as_rows(columns))
        connection.execute(schema.entries.insert(), [entry])
        write_lane(connection, to)
        return
    values = {"entry": entry, "lane": lane_values(to)}
    if len(columns[table.c[0].name]) > 1:
        _copy(connection, table, columns)
        statement = _WITH_ENTRY
    else:
        values["row"] = {name: column[0] for name, column in columns.items()}
        statement = _WITH_ROW[table.name]
    parameters = {
        f"{kind}_{name}": value for kind, row in values.items() for name, value in row.items()
    }
    connection.execute(statement, parameters)


def _insert_through_driver(connection: sql.Connection, table: sql.Table, columns: Columns) -> None:
    """Add rows without what SQLAlchemy does for every value, which costs more than to store it."""
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table.name} ({names}) VALUES ({places})"
    connection.exec_driver_sql(statement, list(zip(*columns.values(), strict=True)))


def _copy(connection: sql.Connection, table: sql.Table, columns: Columns) -> None:
    """Add rows by COPY; its errors are those of any other statement."""
    dialect = connection.dialect
    driver: Any = connection.connection.driver_connection
    names = ", ".join(map(dialect.identifier_preparer.quote, columns))
    statement = f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)"
    types = [table.c[name].type.compile(dialect).lower() for name in columns]
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(types)
            for row in zip(*columns.values(), strict=True):
                copy.write_row(row)
    except dialect.loaded_dbapi.Error as error:
        raise _as_statement_error(connection, statement, error) from error


def _as_statement_error(
    connection: sql.Connection, statement: str, error: Exception
) -> BaseException:
    """An error of the driver as SQLAlchemy raises it."""
    kind, driver = connection.dialect.loaded_dbapi.Error, connection.connection.driver_connection
    while isinstance(error.__context__, kind):  # the first one says what happened
        error = error.__context__
    is_lost = bool(getattr(driver, "closed", False))
    if is_lost:
        connection.invalidate(error)
    return exc.DBAPIError.instance(
        statement, None, error, kind, connection_invalidated=is_lost, dialect=connection.dialect
    )


def _as_rows(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _parameters(kind: str, table: sql.Table) -> dict[str, sql.BindParameter[Any]]:
    return {each.name: sql.bindparam(f"{kind}_{each.name}", type_=each.type) for each in table.c}


def _insert(kind: str, table: sql.Table) -> sql.CTE:
    return table.insert().values(_parameters(kind, table)).cte(f"added_{kind}")


def _append() -> sql.Update:
    """Add an entry, and update its lane."""
    table = schema.lanes
    values = _parameters("lane", table)
    update = table.update().where(table.c.lane == values.pop("lane")).values(values)
    return update.add_cte(_insert("entry", schema.entries))


_WITH_ENTRY = _append()
_WITH_ROW = {
    table.name: _append().add_cte(_insert("row", table))
    for table in (schema.actions, schema.observations)
}
