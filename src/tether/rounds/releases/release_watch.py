"""Watching a release: everything that a live page shows, read again and again at little cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tether.monitor import RiskStatus
from tether.rounds.losses_seen import LossesSeen
from tether.rounds.monitor_path import Monitored, MonitorPaths
from tether.rounds.releases.recent_rows import RecentRow, RecentRows
from tether.rounds.releases.release_history import ReleaseHistory
from tether.rounds.releases.release_history_reader import ReleaseReader
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.step import Step
from tether.rounds.silence import taken
from tether.rounds.store.database import Store

PATIENCE_FOR_LOOKS = 10
"""How many deadlines a look may take: the first one counts all rows."""


@dataclass(frozen=True)
class ReleaseView:
    """A release at one moment.

    Parameters
    ----------
    history : ReleaseHistory
        What `Release.history` returns.
    step : Step
        The present step.
    rows : int
        How many rows the release has.
    monitors : mapping of str to tuple of RiskStatus
        The states over time of the monitors of the present step, by guardrail; guardrails that the
        new system's share cannot violate are left out.
    recent : tuple of RecentRow
        The last rows, latest first.
    """

    history: ReleaseHistory
    step: Step
    rows: int
    monitors: Mapping[str, tuple[RiskStatus, ...]]
    recent: tuple[RecentRow, ...]


class ReleaseWatch:
    """Looks at a release; for one thread."""

    def __init__(self, store: Store, settings: ReleaseSettings) -> None:
        self._store, self._settings = store, settings
        self._begin()

    def _begin(self) -> None:
        self._reader = ReleaseReader(self._store.name, self._settings)
        self._paths, self._recent = MonitorPaths(), RecentRows()

    def look(self) -> ReleaseView:
        """Read what is new; after an error the next look reads everything again."""
        try:
            return self._look()
        except BaseException:
            self._begin()
            raise

    def _look(self) -> ReleaseView:
        with self._store.reading(patience=PATIENCE_FOR_LOOKS) as connection:
            losses = LossesSeen(connection, self._settings)
            losses.update(watch=False)
            history = self._reader.read(connection, losses)
            step = self._reader.steps[-1]
            return ReleaseView(
                history,
                step,
                taken(losses.lanes),
                self._paths.look(
                    connection, _monitored(step), losses, lambda: _observations_before(step)
                ),
                self._recent.look(connection, losses.lanes, losses.names),
            )


def _monitored(step: Step) -> Monitored:
    log_share = math.log(step.share) if step.share > 0 else -math.inf
    return Monitored(step.number, log_share, step.cleared)


def _observations_before(step: Step) -> dict[int, int]:
    return {lane: observation for lane, (_, observation) in step.seen.items()}
