"""Whether each step saw what was stored when it began: all of it, and nothing that came later.

The entry of a step in the hash chain holds the heads of all lanes at that moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import sqlalchemy as sql

from tether.rounds.releases.step import Seen
from tether.rounds.store import schema
from tether.rounds.store.lanes import CONTROL_LANE
from tether.rounds.store.writer import ACTIONS, OBSERVATIONS, record_kind


def find_wrong_seen(connection: sql.Connection, steps: Mapping[int, Seen]) -> Iterator[str]:
    """Steps, or rounds, that name other last rows than the hash chain had when they began."""
    entry = schema.entries
    query = sql.select(entry.c.first, entry.c.heads).where(
        entry.c.lane == CONTROL_LANE, entry.c.kind == record_kind(schema.rounds)
    )
    reached: dict[int, int] = {}
    last: dict[int, tuple[int, int]] = {}
    for number, heads in connection.execute(query.order_by(entry.c.number)).fetchall():
        for name, (to, _) in json.loads(heads or "{}").items():
            lane = int(name)
            found = _last_rows(connection, lane, reached.get(lane, 0), to)
            before = last.get(lane, (0, 0))
            last[lane] = (max(before[0], found[0]), max(before[1], found[1]))
            reached[lane] = to
        if number in steps and _stored(steps[number]) != _stored(last):
            yield (
                f"step {number} says that it saw the rows up to {_stored(steps[number])}, but when "
                f"it began there were those up to {_stored(last)}"
            )


def _last_rows(connection: sql.Connection, lane: int, after: int, to: int) -> tuple[int, int]:
    """The last action and observation that entries of a lane have; 0 where there is none."""
    entry = schema.entries
    query = (
        sql.select(entry.c.kind, sql.func.max(entry.c.last))
        .where(entry.c.lane == lane, entry.c.number > after, entry.c.number <= to)
        .where(entry.c.kind.in_([ACTIONS, OBSERVATIONS]))
        .group_by(entry.c.kind)
    )
    found = {kind: last for kind, last in connection.execute(query)}
    return found.get(ACTIONS, 0), found.get(OBSERVATIONS, 0)


def _stored(seen: Seen) -> Seen:
    """Without lanes that have no rows."""
    return {lane: tuple(each) for lane, each in sorted(seen.items()) if any(each)}  # type: ignore[misc]
