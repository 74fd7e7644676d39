"""Whether the count of silence follows from the rows: where actions without a loss count from.

They count from the last of the losses that the monitors saw, or from the last round or resumption.
A round or resumption is written while nobody else writes, so that its count is exact. A loss counts
all actions that were stored when the monitors saw it: in an SQLite file within the same commit, on
PostgreSQL a moment later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sql

from tether.rounds.kept import Kept
from tether.rounds.replayed_monitors import (
    Numbers,
    find_last_sign,
    last_entry_with,
    last_rows,
)
from tether.rounds.run_settings import RunSettings
from tether.rounds.silence import SILENCE, taken
from tether.rounds.store.group_commit import MAX_JOBS_PER_COMMIT
from tether.rounds.store.lanes import read_lanes
from tether.rounds.store.writer import ACTIONS

LARGEST_CLOCK_DIFFERENCE = timedelta(days=1)
"""By how much the clock of the process that stored a moment may be ahead of this one."""


def find_wrong_silence(
    connection: sql.Connection, settings: RunSettings, seen: Numbers
) -> Iterator[str]:
    """What is kept of silence but does not follow from the rows.

    `seen` is how many observations of each lane the monitors have seen.
    """
    text, sign = Kept(connection)[SILENCE], find_last_sign(connection, settings)
    if sign is None:
        if text is not None:
            yield "silence is counted, but no round has begun"
        return
    if text is None:
        yield "the count of silence was removed"
        return
    rows = json.loads(text)
    if not all(isinstance(row, list) and len(row) == 3 for row in rows):
        yield "silence is counted from something that tether does not write"
        return
    if sorted(str(name) for name, _, _ in rows) != sorted(settings.limits):
        yield "silence is not counted once for each of the losses"
        return
    for name, count, since in rows:
        which = list(settings.limits).index(name)
        least, most = _range(connection, which, sign, seen)
        if type(count) is not int or not least <= count <= most:
            yield (
                f"silence of {name!r} is counted from action {count!r}, but the rows say "
                f"{least if least == most else f'{least} to {most}'}"
            )
        if not _is_past(since):
            yield f"silence of {name!r} is counted from the time {since!r}"


def _range(connection: sql.Connection, which: int, sign: Numbers, seen: Numbers) -> tuple[int, int]:
    """The least and the largest number of actions that may have been stored at the last loss.

    `sign` has the entries at the last round or resumption.
    """
    lanes = {number: lane for number, lane in read_lanes(connection).items() if number >= 0}
    total = taken(lanes)
    at_sign = last_rows(connection, ACTIONS, sign)
    entries = {lane: last_entry_with(connection, lane, which, seen.get(lane, 0)) for lane in lanes}
    least = last_rows(
        connection, ACTIONS, {lane: max(sign.get(lane, 0), entries[lane]) for lane in lanes}
    )
    if connection.dialect.name != "sqlite":
        return sum(least.values()), total if any(entries.values()) else sum(at_sign.values())
    most = sum(at_sign.values())
    for number, entry in entries.items():
        if entry > sign.get(number, 0):
            commit = {number: entry + MAX_JOBS_PER_COMMIT - 1}  # the last entry that it may have
            here = last_rows(connection, ACTIONS, commit)[number]
            most = max(most, total - lanes[number].last_action + here)
    return sum(least.values()), most


def _is_past(moment: Any) -> bool:
    """Whether something is a moment with a time zone that is not in the future."""
    try:
        since = datetime.fromisoformat(moment)
        return since <= datetime.now(UTC) + LARGEST_CLOCK_DIFFERENCE
    except (TypeError, ValueError, OverflowError):
        return False
