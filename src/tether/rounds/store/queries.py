"""What is read from a store, and how its small tables are written."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql

from tether._core import records
from tether._core.arrays import Floats, Integers
from tether.control.calibration import Calibration
from tether.rounds.store import schema
from tether.rounds.store.writer import Writer

logger = logging.getLogger("tether.rounds")

IDS_PER_QUERY = 500
"""How many ids go into one query at most."""
RUN_SETTING = "run"
"""The setting by which a run is known, also in copies of it."""


def now() -> str:
    """The present time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def storable_text(text: str) -> str:
    """Text that every database can hold: no NUL, no lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def read_settings(connection: sql.Connection) -> dict[str, Any]:
    """What the run was created with, and how its contexts and actions are stored."""
    rows = connection.execute(sql.select(schema.settings.c.name, schema.settings.c.value))
    return {name: json.loads(value) for name, value in rows if name != "version"}


def write_settings(writer: Writer, settings: dict[str, Any]) -> None:
    """Add entries to the stored settings."""
    writer.settings({name: json.dumps(records.encode(value)) for name, value in settings.items()})


def read_added(connection: sql.Connection, table: sql.Table, known: int) -> list[dict[str, Any]]:
    """The records of a table after the first ones, which are known; they are numbered from 1."""
    query = sql.select(table).where(table.c.number > known).order_by(table.c.number)
    return [dict(row) for row in connection.execute(query).mappings()]


def read_all(connection: sql.Connection, table: sql.Table) -> list[dict[str, Any]]:
    """A small table in the order of its key."""
    query = sql.select(table).order_by(*table.primary_key)
    return [dict(row) for row in connection.execute(query).mappings()]


def read_round(connection: sql.Connection, number: int) -> dict[str, Any]:
    """The row of a round, or of a step, by its number."""
    table = schema.rounds
    return dict(
        connection.execute(sql.select(table).where(table.c.number == number)).mappings().one()
    )


def last_number(connection: sql.Connection, column: sql.Column[Any]) -> int:
    """The largest number assigned so far; 0 before the first."""
    return int(connection.scalar(sql.select(sql.func.max(column))) or 0)


def find_known(
    connection: sql.Connection, column: sql.Column[Any], numbers: Integers | Sequence[int]
) -> list[int]:
    """The given numbers that a column contains."""
    known: list[int] = []
    for start in range(0, len(numbers), IDS_PER_QUERY):
        batch = [int(number) for number in numbers[start : start + IDS_PER_QUERY]]
        known += connection.scalars(sql.select(column).where(is_among(connection, column, batch)))
    return known


def is_among(
    connection: sql.Connection, column: sql.Column[Any], numbers: Sequence[int]
) -> sql.ColumnElement[bool]:
    """Whether a column has one of many numbers, which PostgreSQL takes as one parameter."""
    if connection.dialect.name == "postgresql":
        return column == sql.any_(sql.literal(numbers, postgresql.ARRAY(sql.BigInteger)))
    return column.in_(numbers)


def null_for_nan(values: Floats) -> list[float | None]:
    """Numbers for the database, which has NULL and no NaN."""
    return [None if value != value else value for value in values.tolist()]


def calibration_to_json(calibration: Calibration | None) -> str | None:
    """A calibration as JSON."""
    return None if calibration is None else json.dumps(records.encode(calibration))


def calibration_from_json(text: str | None) -> Calibration | None:
    """The inverse of `calibration_to_json`."""
    return None if text is None else records.decode(Calibration, json.loads(text))


def write_alarm(writer: Writer, round_number: int, monitor: str, message: str) -> None:
    """Raise an alarm: from now on the safe policy serves."""
    row = {
        "number": 1 + last_number(writer.connection, schema.alarms.c.number),
        "round": round_number,
        "monitor": monitor,
        "message": message,
        "raised": now(),
    }
    writer.record(schema.alarms, row)
    logger.warning("alarm %d (%s): %s", row["number"], monitor, message)


def write_audit(
    writer: Writer, act: str, actor: str, reason: str, subject: int | None = None
) -> None:
    """Store what a person did."""
    row = {
        "number": 1 + last_number(writer.connection, schema.audit.c.number),
        "act": act,
        "actor": actor,
        "reason": reason,
        "subject": subject,
        "done": now(),
    }
    writer.record(schema.audit, row)
    logger.info("%s by %s", act, actor)
