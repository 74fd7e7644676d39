"""Watching a run: everything that a live page shows, read again and again at little cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sql

from tether.monitor import RiskStatus
from tether.rounds.history import History
from tether.rounds.history_reader import RunReader, StoredRound
from tether.rounds.losses_seen import LossesSeen
from tether.rounds.monitor_path import Monitored, MonitorPaths
from tether.rounds.recent_actions import RecentAction, RecentActions
from tether.rounds.replayed_monitors import find_restart
from tether.rounds.settings import Settings
from tether.rounds.store.database import Store
from tether.rounds.store.serving import Serving, read_serving
from tether.rounds.store.writer import OBSERVATIONS

PATIENCE_FOR_RUNS = 10
"""How many deadlines a look may take: the first one counts all rows."""


@dataclass(frozen=True)
class RunView:
    """A run at one moment.

    Parameters
    ----------
    history : History
        What `Controller.history` returns.
    serves : bool
        Whether the optimized policy of the present round acts: there is one, no alarm stands, and
        it is not retired. In a ramp a round is over once an alarm was cleared: the next one begins
        with the next action.
    monitors : mapping of str to tuple of RiskStatus
        The states over time of the monitors of the present round's policy, by loss, since they last
        began anew; losses that it cannot violate are left out.
    recent : tuple of RecentAction
        The last actions, latest first.
    """

    history: History
    serves: bool
    monitors: Mapping[str, tuple[RiskStatus, ...]]
    recent: tuple[RecentAction, ...]


class RunWatch:
    """Looks at a run; for one thread."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._begin()

    def _begin(self) -> None:
        self._reader = RunReader(self._store.name, self._settings)
        self._paths, self._recent = MonitorPaths(), RecentActions()

    def look(self) -> RunView:
        """Read what is new; after an error the next look reads everything again."""
        try:
            return self._look()
        except BaseException:
            self._begin()
            raise

    def _look(self) -> RunView:
        with self._store.reading(patience=PATIENCE_FOR_RUNS) as connection:
            losses = LossesSeen(connection, self._settings)
            losses.update(watch=False)
            history, serving = self._reader.read(connection, losses), read_serving(connection)
            present = self._reader.present
            monitors: Mapping[str, tuple[RiskStatus, ...]] = {}
            if present is not None and present.row["log_beta"] > -math.inf:
                row = present.row
                monitored = Monitored(row["number"], row["log_beta"], serving.cleared)
                monitors = self._paths.look(
                    connection, monitored, losses, lambda: _unseen(connection, row)
                )
            recent = self._recent.look(connection, losses.lanes, losses.names)
        return RunView(history, _serves(present, serving), monitors, recent)


def _serves(present: StoredRound | None, serving: Serving) -> bool:
    if present is None or serving.alarm is not None or serving.retired:
        return False
    step = None if present.ramp is None else present.ramp.step
    if step is not None and step.cleared < serving.cleared:
        return False
    return bool(present.row["log_beta"] > -math.inf)


def _unseen(connection: sql.Connection, row: Mapping[str, Any]) -> dict[int, int]:
    """The observations before a round, or before its monitors began anew, whichever is later."""
    before = {int(lane): place[1] or 0 for lane, place in json.loads(row["seen"]).items()}
    restart = find_restart(connection, OBSERVATIONS) or {}
    return {lane: max(before.get(lane, 0), restart.get(lane, 0)) for lane in {*before, *restart}}
