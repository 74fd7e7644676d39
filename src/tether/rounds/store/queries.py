"""Reading and writing the small tables of a store, inside a transaction.

Settings, numbers, columns of scores, calibrations as JSON, and alarms.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core import records
from tether._core.types import Floats, Integers
from tether.control.calibration import Calibration
from tether.rounds.store import schema

IDS_PER_QUERY = 500
"""How many ids go into one query at most."""
MAX_BLOB_BYTES = 2**26
"""How many bytes of a column of scores go into one database row at most."""


def now() -> str:
    """The present time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_settings(connection: sql.Connection) -> dict[str, Any]:
    """What the run was created with, and how its contexts and actions are stored."""
    rows = connection.execute(sql.select(schema.settings.c.name, schema.settings.c.value))
    return {name: json.loads(value) for name, value in rows if name != "version"}


def write_settings(connection: sql.Connection, settings: dict[str, Any]) -> None:
    """Add entries to the stored settings."""
    rows = [
        {"name": name, "value": json.dumps(records.encode(value))}
        for name, value in settings.items()
    ]
    connection.execute(schema.settings.insert(), rows)


def read_all(connection: sql.Connection, table: sql.Table) -> list[dict[str, Any]]:
    """A small table in the order of its key; empty if an older store does not have it."""
    if not sql.inspect(connection).has_table(table.name):
        return []
    query = sql.select(table).order_by(*table.primary_key)
    return [dict(row) for row in connection.execute(query).mappings()]


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
        known += connection.scalars(sql.select(column).where(column.in_(batch)))
    return known


def read_column(connection: sql.Connection, number: int, name: str, start: int = 0) -> Floats:
    """A round's column of scores from row `start` on, as one flat array."""
    table = schema.columns
    query = (
        sql.select(table.c["values"])
        .where(table.c.round == number, table.c.name == name, table.c.start >= start)
        .order_by(table.c.start)
    )
    content = b"".join(bytes(blob) for blob in connection.scalars(query))
    return np.frombuffer(content, dtype="<f8").astype(np.float64, copy=False)


def write_column(
    connection: sql.Connection, number: int, name: str, start: int, values: NDArray[Any]
) -> None:
    """Append to a round's column of scores, in pieces that a database can hold."""
    array = np.ascontiguousarray(values, dtype="<f8")
    step = max(1, MAX_BLOB_BYTES * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), step):
        piece = array[first : first + step]
        connection.execute(
            schema.columns.insert().values(
                round=number,
                name=name,
                start=start + first,
                count=len(piece),
                values=piece.tobytes(),
            )
        )


def calibration_to_json(calibration: Calibration | None) -> str | None:
    """A calibration as JSON, diagnostics included."""
    return None if calibration is None else json.dumps(records.encode(calibration.to_dict()))


def calibration_from_json(text: str | None) -> Calibration | None:
    """The inverse of `calibration_to_json`."""
    return None if text is None else Calibration.from_dict(json.loads(text))


def find_alarm(connection: sql.Connection) -> int | None:
    """The number of the alarm that stands; None if there is none."""
    table = schema.alarms
    query = sql.select(sql.func.min(table.c.number)).where(table.c.cleared.is_(None))
    number = connection.scalar(query)
    return None if number is None else int(number)


def write_alarm(connection: sql.Connection, round_number: int, monitor: str, message: str) -> None:
    """Raise an alarm: from now on the safe policy serves."""
    table = schema.alarms
    row = {
        "number": 1 + last_number(connection, table.c.number),
        "round": round_number,
        "monitor": monitor,
        "message": message,
        "raised": now(),
    }
    connection.execute(table.insert().values(**row))


def write_alarm_cleared(connection: sql.Connection, reason: str) -> None:
    """Clear every alarm that stands; the monitors restart after the present rows."""
    table = schema.alarms
    connection.execute(
        table.update()
        .where(table.c.cleared.is_(None))
        .values(
            cleared=now(),
            reason=reason,
            last_action=last_number(connection, schema.actions.c.id),
            last_observation=last_number(connection, schema.observations.c.number),
        )
    )


def monitored_after(connection: sql.Connection) -> tuple[int, int]:
    """The last action and the last observation before the monitors' most recent restart."""
    table = schema.alarms
    query = sql.select(sql.func.max(table.c.last_action), sql.func.max(table.c.last_observation))
    action, observation = connection.execute(query).one()
    return int(action or 0), int(observation or 0)
