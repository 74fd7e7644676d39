"""Alarms: raised by a monitor, cleared by a person."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from tether.rounds.store import schema
from tether.rounds.store.store import Store, last

table = schema.alarms


def now() -> str:
    """The present moment, in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def standing(connection: sql.Connection) -> int | None:
    """The number of the alarm that stands, if one does."""
    found = connection.scalar(sql.select(sql.func.min(table.c.number)).where(_stands()))
    return None if found is None else int(found)


def raise_alarm(connection: sql.Connection, number: int, monitor: str, message: str) -> None:
    """Write an alarm down: from now on the safe policy serves."""
    values = {"round": number, "monitor": monitor, "message": message, "raised": now()}
    values["number"] = 1 + last(connection, table.c.number)
    connection.execute(table.insert().values(**values))


def resume(store: str | Path, reason: str) -> None:
    """Clear the alarm that stands in a store; no policy is needed for it."""
    opened = Store(store, create=False)
    try:
        clear(opened, reason)
    finally:
        opened.close()


def clear(store: Store, reason: str) -> None:
    """The same, of a store that is open; the monitors begin anew."""
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"reason must say in words why the alarm may be cleared, got {reason!r}")
    with store.writing() as connection:
        if standing(connection) is None:
            raise ValueError(f"no alarm stands in {store.name}: there is nothing to resume from")
        connection.execute(
            table.update()
            .where(_stands())
            .values(
                cleared=now(),
                reason=reason.strip(),
                last_action=last(connection, schema.actions.c.id),
                last_report=last(connection, schema.reports.c.number),
            )
        )


def beginning(connection: sql.Connection) -> tuple[int, int]:
    """The last action and the last report that the monitors are not to look at any more."""
    query = sql.select(sql.func.max(table.c.last_action), sql.func.max(table.c.last_report))
    action, report = connection.execute(query).one()
    return int(action or 0), int(report or 0)


def _stands() -> Any:
    return table.c.cleared.is_(None)
