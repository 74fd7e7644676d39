"""Following the last rows of a store, with the losses that have arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import sqlalchemy as sql

from tether.rounds.releases.step import moment
from tether.rounds.store import schema
from tether.rounds.store.lanes import Lane, first_id

RECENT_ROWS = 20
"""How many rows are shown."""

Shown = TypeVar("Shown")


class LastRow(NamedTuple, Generic[Shown]):
    """A row: what is shown of it, when it was first seen, and its losses by name.

    `seen` is in UTC, as ISO 8601, soon after the row was stored, which has no time itself. None if
    it was there at the first look.
    """

    id: int
    content: Shown
    seen: str | None
    losses: Mapping[str, float]


class LastRows(Generic[Shown]):
    """Each look reads the ids that are new, at most a few of each lane.

    `convert` makes what is shown of rows with their id and some columns of the table of actions.
    """

    def __init__(
        self,
        columns: Sequence[sql.Column[Any]],
        convert: Callable[[Sequence[Any]], Sequence[Shown]],
    ) -> None:
        self._columns, self._convert = columns, convert
        self._reached: dict[int, int] | None = None
        self._rows: list[tuple[int, Shown, str | None]] = []

    def look(
        self, connection: sql.Connection, lanes: Mapping[int, Lane], names: list[str]
    ) -> list[LastRow[Shown]]:
        """The last rows as of a transaction, latest first."""
        before, now = self._reached, moment().isoformat(timespec="seconds")
        ids: list[int] = []
        for number, lane in lanes.items():
            if number >= 0:
                known = 0 if before is None else before.get(number, 0)
                first = max(known, lane.last_action - RECENT_ROWS) + 1
                ids += (first_id(number) + each for each in range(first, lane.last_action + 1))
        self._reached = {number: lane.last_action for number, lane in lanes.items()}
        if ids:
            # Those that are left out below are not read: a row may be large.
            ids = sorted(ids, reverse=True)[:RECENT_ROWS]
            action = schema.actions
            query = sql.select(action.c.id, *self._columns).where(action.c.id.in_(ids))
            found = connection.execute(query.order_by(action.c.id.desc())).fetchall()
            seen = None if before is None else now
            fresh = [
                (row.id, content, seen)
                for row, content in zip(found, self._convert(found), strict=True)
            ]
            self._rows = [*fresh, *self._rows][:RECENT_ROWS]
        losses = self._losses(connection, names)
        return [
            LastRow(row_id, content, seen, losses.get(row_id, {}))
            for row_id, content, seen in self._rows
        ]

    def _losses(self, connection: sql.Connection, names: list[str]) -> dict[int, dict[str, float]]:
        table, found = schema.observations, dict[int, dict[str, float]]()
        query = sql.select(table.c.action, table.c.which, table.c.loss).where(
            table.c.action.in_([row[0] for row in self._rows]), table.c.loss.is_not(None)
        )
        for row_id, which, loss in connection.execute(query):
            found.setdefault(row_id, {})[names[which]] = loss
        return found
