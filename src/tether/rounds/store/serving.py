"""Who serves, as the store says: the last round, unless an alarm stands or it is retired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sql

from tether.rounds.store import schema

RESUME, RETIRE = "resume", "retire"
"""The acts in the audit trail that clear alarms, and that leave a round out."""


class Serving(NamedTuple):
    """Who serves: the last round, the alarm that stands, if any, and whether it is retired.

    `cleared` is the last alarm that was cleared; 0 if none was.
    """

    round: int
    alarm: int | None
    retired: bool = False
    cleared: int = 0


def read_serving(connection: sql.Connection) -> Serving:
    """The last round, and the first alarm that was not cleared."""
    return serving_from_row(connection.execute(_SERVING).one())


def serving_from_row(row: Sequence[Any]) -> Serving:
    """What `SERVING_COLUMNS` say."""
    number, alarm, last_retired, cleared = row
    number, alarm = int(number or 0), None if alarm is None else int(alarm)
    return Serving(number, alarm, last_retired == number > 0, int(cleared))


def _columns() -> list[sql.ColumnElement[Any]]:
    alarm, audit = schema.alarms.c.number, schema.audit
    cleared = sql.select(sql.func.max(audit.c.subject)).where(audit.c.act == RESUME)
    last_cleared = sql.func.coalesce(cleared.scalar_subquery(), 0)
    standing = sql.select(sql.func.min(alarm)).where(alarm > last_cleared)
    latest = sql.select(sql.func.max(schema.rounds.c.number))
    retired = sql.select(sql.func.max(audit.c.subject)).where(audit.c.act == RETIRE)
    found = [each.scalar_subquery() for each in (latest, standing, retired)]
    return [*found, last_cleared]


SERVING_COLUMNS = _columns()
"""Who serves, as columns of a query."""
_SERVING = sql.select(*SERVING_COLUMNS)


def read_retired(connection: sql.Connection) -> frozenset[int]:
    """The rounds whose rows are left out of calibrations."""
    table = schema.audit
    return frozenset(connection.scalars(sql.select(table.c.subject).where(table.c.act == RETIRE)))
