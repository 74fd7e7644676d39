"""The last rows of a release, with the losses that have arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sql

from tether.rounds.last_rows import LastRows
from tether.rounds.store import schema
from tether.rounds.store.lanes import Lane


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
    """Follows the last rows."""

    def __init__(self) -> None:
        action = schema.actions
        self._rows = LastRows((action.c.context, action.c.action, action.c.round), _contents)

    def look(
        self, connection: sql.Connection, lanes: Mapping[int, Lane], names: list[str]
    ) -> tuple[RecentRow, ...]:
        """The last rows as of a transaction, latest first."""
        return tuple(
            RecentRow(*each.content, each.seen, each.losses)
            for each in self._rows.look(connection, lanes, names)
        )


def _contents(rows: Sequence[Any]) -> list[tuple[str, str, int]]:
    return [(_text(row.context), _text(row.action), row.round) for row in rows]


def _text(content: bytes | memoryview) -> str:
    return bytes(content).decode(errors="replace")
