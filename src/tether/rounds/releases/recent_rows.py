"""The last rows of a release, with the losses that have arrived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sql

from tether.rounds.releases.step import moment
from tether.rounds.store import schema
from tether.rounds.store.lanes import Lane, first_id

RECENT_ROWS = 20
"""How many rows are shown."""


@dataclass(frozen=True)
class RecentRow:
    """A key that a system answered for the first time.

    Parameters
    ----------
    key : str
        The key as it is stored.
    system : str
        The system: "old" or "new".
    step : int
        The step.
    seen : str or None
        When it was first seen here, in UTC, as ISO 8601: soon after it was stored, which has no
        time itself. None if it was there at the first look.
    losses : mapping of str to float
        The losses that have arrived, by guardrail.
    """

    key: str
    system: str
    step: int
    seen: str | None
    losses: Mapping[str, float]


class RecentRows:
    """Follows the last rows; each look reads the ids that are new, at most a few of each lane."""

    def __init__(self) -> None:
        self._reached: dict[int, int] | None = None
        self._rows: list[tuple[int, str, str, int, str | None]] = []  # with their ids

    def look(
        self, connection: sql.Connection, lanes: Mapping[int, Lane], names: list[str]
    ) -> tuple[RecentRow, ...]:
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
            action = schema.actions
            columns = (action.c.id, action.c.context, action.c.action, action.c.round)
            query = sql.select(*columns).where(action.c.id.in_(ids)).order_by(action.c.id.desc())
            seen = None if before is None else now
            fresh = [
                (row.id, _text(row.context), _text(row.action), row.round, seen)
                for row in connection.execute(query)
            ]
            self._rows = [*fresh, *self._rows][:RECENT_ROWS]
        losses = self._losses(connection, names)
        return tuple(
            RecentRow(key, system, step, seen, losses.get(row_id, {}))
            for row_id, key, system, step, seen in self._rows
        )

    def _losses(self, connection: sql.Connection, names: list[str]) -> dict[int, dict[str, float]]:
        table, found = schema.observations, dict[int, dict[str, float]]()
        query = sql.select(table.c.action, table.c.which, table.c.loss).where(
            table.c.action.in_([row[0] for row in self._rows]), table.c.loss.is_not(None)
        )
        for row_id, which, loss in connection.execute(query):
            found.setdefault(row_id, {})[names[which]] = loss
        return found


def _text(content: bytes | memoryview) -> str:
    return bytes(content).decode(errors="replace")
