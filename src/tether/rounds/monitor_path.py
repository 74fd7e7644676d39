"""The path of the risk monitors of a policy: their confidence sequences, loss after loss.

The store keeps the present state of a monitor and not its path. Here another `RiskMonitor` with the
same settings sees the stored losses of the policy of a round, or of the new system in a step of a
release, in the order of each lane, and a bounded number of its states is recorded. It goes on after
an alarm, when the stored one does not: the confidence sequence holds at all times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether.monitor import RiskMonitor, RiskStatus
from tether.rounds.losses_seen import LossesSeen
from tether.rounds.store import schema
from tether.rounds.store.lanes import first_id

MAX_PATH_POINTS = 200
"""How many states of a monitor are recorded; beyond them every other one is left out."""
LOSSES_PER_QUERY, LOSSES_PER_LOOK = 10_000, 50_000
"""How many losses are read at once, and in one look; the rest is left to the next looks."""


class RecordedMonitor:
    """A monitor with a record of its states after every `stride` losses."""

    def __init__(self, monitor: RiskMonitor) -> None:
        self._monitor, self._stride = monitor, 1
        self._recorded: list[RiskStatus] = []
        self._last = monitor.status

    def update(self, losses: NDArray[np.float64]) -> None:
        """See more losses."""
        begin = 0
        while begin < len(losses):
            end = begin + self._stride - self._last.seen % self._stride
            self._last = self._monitor.update(losses[begin:end])
            begin = end
            if self._last.seen % self._stride == 0:
                self._recorded.append(self._last)
            if len(self._recorded) == MAX_PATH_POINTS:
                self._recorded, self._stride = self._recorded[1::2], 2 * self._stride

    @property
    def path(self) -> tuple[RiskStatus, ...]:
        """The recorded states, and the present one."""
        recorded = self._recorded
        is_in = bool(recorded) and recorded[-1].seen == self._last.seen
        return tuple(recorded) if is_in else (*recorded, self._last)


class Monitored(NamedTuple):
    """Whose losses are monitored: the policy of a round, or the new system in a step.

    `log_share` is the logarithm of its share, or of its beta. `cleared` is the last alarm that was
    cleared: monitors begin anew after it.
    """

    number: int
    log_share: float
    cleared: int


class MonitorPaths:
    """The paths of the monitors of a policy, by loss; each look reads what is new."""

    def __init__(self) -> None:
        self._present: Monitored | None = None
        self._monitors: dict[str, RecordedMonitor] = {}
        self._reached: dict[int, int] = {}

    def look(
        self,
        connection: sql.Connection,
        present: Monitored,
        losses: LossesSeen,
        begins_after: Callable[[], Mapping[int, int]],
    ) -> Mapping[str, tuple[RiskStatus, ...]]:
        """The paths as of a transaction; losses that nothing can violate are left out.

        `begins_after` gives the last observation of each lane that its monitors do not see; it is
        called when they begin.
        """
        if present != self._present:
            self._present, self._reached = present, dict(begins_after())
            made = {name: losses.risk_monitor(name, present.log_share) for name in losses.names}
            self._monitors = {
                name: RecordedMonitor(each) for name, each in made.items() if each is not None
            }
        if self._monitors:
            self._read(connection, losses)
        return {name: each.path for name, each in self._monitors.items()}

    def _read(self, connection: sql.Connection, losses: LossesSeen) -> None:
        left = LOSSES_PER_LOOK
        for number, lane in losses.lanes.items():
            while number >= 0 and left > 0:
                begin = self._reached.get(number, 0)
                end = min(lane.last_observation, begin + LOSSES_PER_QUERY)
                if begin >= end:
                    break
                self._add(connection, losses.names, first_id(number), begin, end)
                self._reached[number] = end
                left -= end - begin

    def _add(
        self, connection: sql.Connection, names: list[str], start: int, begin: int, end: int
    ) -> None:
        action, observation = schema.actions, schema.observations
        assert self._present is not None
        query = (
            sql.select(observation.c.which, observation.c.loss)
            .join_from(observation, action, observation.c.action == action.c.id)
            .where(observation.c.number.between(start + begin + 1, start + end))
            .where(action.c.served == self._present.number, observation.c.loss.is_not(None))
            .order_by(observation.c.number)
        )
        found = connection.execute(query).fetchall()
        which = np.array([row.which for row in found], np.int64)
        values = np.array([row.loss for row in found], np.float64)
        for k, name in enumerate(names):
            if name in self._monitors and (which == k).any():
                self._monitors[name].update(values[which == k])
