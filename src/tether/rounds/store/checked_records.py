"""Rows of the store's small tables, read from JSON that anyone may have written."""

from __future__ import annotations

import json
import math
from typing import Any

import sqlalchemy as sql

LARGEST_INTEGER = 2**63 - 1
LARGEST_SMALL_INTEGER = 2**31 - 1


def record_from_json(
    table: sql.Table, text: Any, *, without: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A row with every column of a table except some; anything else is a ValueError."""
    row = json.loads(text)
    columns = {column.name: column for column in table.c if column.name not in without}
    if not isinstance(row, dict) or set(row) != set(columns):
        raise ValueError(
            f"a record of {table.name} must have {', '.join(columns)}, got {text!r:.200}"
        )
    return {name: _checked(table, column, row[name]) for name, column in columns.items()}


def check_value(name: str, column: sql.Column[Any], value: Any) -> None:
    """Refuse a value that its column cannot hold."""
    accepted = _accepts(column.type, value) if value is not None else bool(column.nullable)
    if not accepted:
        raise ValueError(f"{name} must be {_expected(column)}, got {value!r:.200}")


def _checked(table: sql.Table, column: sql.Column[Any], value: Any) -> Any:
    if isinstance(column.type, sql.LargeBinary) and isinstance(value, str):
        value = bytes.fromhex(value)
    if isinstance(column.type, sql.Double):
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole or value in ("inf", "-inf"):
            value = float(value)
    check_value(f"{table.name}.{column.name}", column, value)
    return value


def _accepts(kind: Any, value: Any) -> bool:
    if isinstance(kind, sql.Boolean):
        return isinstance(value, bool)
    if isinstance(kind, sql.Integer):
        largest = LARGEST_INTEGER if isinstance(kind, sql.BigInteger) else LARGEST_SMALL_INTEGER
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and -largest - 1 <= value <= largest
    if isinstance(kind, sql.Double):
        return isinstance(value, float) and not math.isnan(value)
    if isinstance(kind, sql.LargeBinary):
        return isinstance(value, bytes)
    if not isinstance(value, str) or "\0" in value or len(value) > (kind.length or len(value)):
        return False
    value.encode()  # raises UnicodeError for lone surrogates
    return True


def _expected(column: sql.Column[Any]) -> str:
    name = str(column.type).lower()
    return f"{name} or missing" if column.nullable else name
