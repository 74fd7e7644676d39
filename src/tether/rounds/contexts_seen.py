"""Following the contexts of a run: the shift monitor on their scores, as they arrive.

The scores are stored with the actions. The monitor depends on earlier scores through their ranks
alone, whatever their order, so its state is what it bet on, and which rows it has seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core import records
from tether._core.arrays import Floats
from tether.monitor import ShiftMonitor
from tether.rounds.kept import Kept
from tether.rounds.losses_seen import Raised
from tether.rounds.run_settings import RunSettings
from tether.rounds.store import schema
from tether.rounds.store.lanes import first_id, read_lanes

REFERENCE_CONTEXTS = 500
"""How many contexts, from the start of the run or the last alarm, serve as the reference."""
SHIFT = "shift"
"""The name under which the state of the shift monitor is kept."""


class ContextsSeen:
    """The shift monitor, and how far it has read; `start` is where it began in each lane."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._monitor: ShiftMonitor | None = None
        self._state: str | None = None  # the stored state that `_monitor` has

    def update(
        self, connection: sql.Connection, to: Mapping[int, int] | None = None
    ) -> Raised | None:
        """Read the contexts that are new; the alarm that they raise, if any.

        `to` limits what is read to a number in each lane.
        """
        kept = Kept(connection, SHIFT)
        text = kept[SHIFT]
        start, seen, saved = json.loads(text) if text is not None else ({}, {}, None)
        known, self._state = self._state, None  # until it is kept what the monitor sees now
        if text is None or text != known:
            self._monitor = self._restored(connection, start, seen, saved)
        reached = _reached(connection, to)
        scores = read_scores(connection, seen, reached)
        if not len(scores):
            self._state = text
            return None
        status = self._add(connection, start, seen, scores)
        saved = None if self._monitor is None else records.encode(self._monitor.state())
        state = json.dumps([start, reached, saved])
        kept[SHIFT] = state
        kept.save()
        self._state = state
        if status is None or not status.alarm:
            return None
        latest = int(connection.scalar(sql.select(sql.func.max(schema.rounds.c.number))) or 0)
        return Raised(latest, "shift", str(status))

    def restart(self, connection: sql.Connection, to: Mapping[int, int] | None = None) -> None:
        """Begin anew, after an alarm was cleared: the next contexts are the reference.

        `to` says which they are, if not those from now on.
        """
        reached = _reached(connection, to)
        kept = Kept(connection)
        kept[SHIFT] = json.dumps([reached, reached, None])
        kept.save()

    def _restored(
        self, connection: sql.Connection, start: Any, seen: Any, saved: Any
    ) -> ShiftMonitor | None:
        if saved is None:
            return None
        scores = read_scores(connection, start, seen)
        return ShiftMonitor._from_saved({**records.decode_plain(saved), "scores": scores})

    def _add(self, connection: sql.Connection, start: Any, seen: Any, scores: Floats) -> Any:
        if self._monitor is None:
            reference = np.concatenate([read_scores(connection, start, seen), scores])
            self._monitor = start_monitor(self._settings, start, reference)
            return None if self._monitor is None else self._monitor.status
        return self._monitor.update(scores)


def start_monitor(
    settings: RunSettings, start: Mapping[str, int], scores: Floats
) -> ShiftMonitor | None:
    """A monitor that has seen the scores from `start` on; None if they are too few to begin."""
    if len(scores) < REFERENCE_CONTEXTS:
        return None
    rng = np.random.default_rng([settings.seed, sum(start.values())])
    reference, new = scores[:REFERENCE_CONTEXTS], scores[REFERENCE_CONTEXTS:]
    monitor = ShiftMonitor(reference, settings.false_alarm_probability, rng=rng)
    if len(new):
        monitor.update(new)
    return monitor


def _reached(connection: sql.Connection, to: Mapping[int, int] | None) -> dict[str, int]:
    """The last action of each lane, or what is given instead, as it is stored."""
    if to is None:
        to = {lane: row.last_action for lane, row in read_lanes(connection).items()}
    return {str(lane): last for lane, last in to.items() if lane >= 0}


def read_scores(
    connection: sql.Connection, after: Mapping[str, int], to: Mapping[str, int]
) -> Floats:
    """The scores of the contexts of each lane, from after one number up to another."""
    table, parts = schema.actions, [np.empty(0)]
    for lane, last in to.items():
        first, begin = after.get(lane, 0), first_id(int(lane))
        if int(lane) >= 0 and last > first:
            query = sql.select(table.c.context_score).where(
                table.c.id > begin + first,
                table.c.id <= begin + last,
                table.c.context_score.is_not(None),
            )
            parts.append(np.array(connection.scalars(query.order_by(table.c.id)).all(), float))
    scores = np.concatenate(parts)
    return scores[~np.isnan(scores)]
