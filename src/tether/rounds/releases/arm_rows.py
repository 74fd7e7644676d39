"""The rows of each step and system: how many, and what their losses sum to.

Every row that is read is checked against the hash chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import sqlalchemy as sql

from tether.rounds.policy_registry import SAFE
from tether.rounds.releases.grouped_counts import GroupedCounts
from tether.rounds.releases.step import Seen
from tether.rounds.store.fetched_columns import Columns
from tether.rounds.store.followed_lane import Place, follow_lane
from tether.rounds.store.lanes import read_lanes, split_ids


class Arm(NamedTuple):
    """A system in a step."""

    step: int
    is_new: bool


class ArmRows(GroupedCounts[Arm]):
    """Counts and sums by step and system, read once and then only what is new."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._places: dict[int, Place] = {}
        self._arms: dict[int, list[np.ndarray]] = {}  # of each lane: ±step for each of its rows

    @property
    def seen(self) -> Seen:
        """How far each lane was read."""
        return {
            lane: (place.action or 0, place.observation or 0)
            for lane, place in self._places.items()
        }

    def refresh(self, connection: sql.Connection) -> None:
        """Read what was written since the last call; nothing changes if that fails."""
        fresh = deepcopy({name: vars(self)[name] for name in ("rows", "known", "totals")})
        places = dict(self._places)
        arms = {lane: list(parts) for lane, parts in self._arms.items()}
        observed: list[Columns] = []
        for lane in read_lanes(connection):
            if lane < 0:
                continue
            for chunk in follow_lane(connection, lane, places.get(lane, Place())):
                if chunk.actions is not None:
                    step = np.asarray(chunk.actions["round"], np.int64)
                    is_new = np.asarray(chunk.actions["served"], np.int64) != SAFE
                    signed = np.where(is_new, step, -step)
                    arms.setdefault(lane, []).append(signed)
                    fresh["rows"].update(_counted(signed))
                if chunk.observations is not None:
                    observed.append(chunk.observations)
                places[lane] = chunk.place
        arms = {lane: [np.concatenate(parts)] for lane, parts in arms.items()}
        for columns in observed:
            self._add(columns, arms, fresh)
        self.__dict__.update(fresh, _places=places, _arms=arms)

    def of_system(self, *, is_new: bool) -> list[Arm]:
        """A system in all steps so far."""
        return [arm for arm in sorted(self.rows) if arm.is_new == is_new]

    def _add(self, columns: Columns, arms: dict[int, list[np.ndarray]], fresh: dict) -> None:  # type: ignore[type-arg]
        loss = np.asarray(columns["loss"], np.float64)
        lanes, numbers = split_ids(np.asarray(columns["action"], np.int64))
        signed = np.empty(len(loss), np.int64)
        for lane in np.unique(lanes).tolist():
            mine = lanes == lane
            signed[mine] = arms[lane][0][numbers[mine] - 1]
        which = np.asarray(columns["which"], np.int64)
        for k, name in enumerate(self.names):
            arrived = (which == k) & ~np.isnan(loss)
            for value in np.unique(signed[arrived]).tolist():
                mine = arrived & (signed == value)
                fresh["known"][_arm(value), name] += int(mine.sum())
                fresh["totals"][_arm(value), name] += float(loss[mine].sum())


def _arm(signed: int) -> Arm:
    return Arm(abs(signed), signed > 0)


def _counted(signed: np.ndarray) -> dict[Arm, int]:
    values, counts = np.unique(signed, return_counts=True)
    return {
        _arm(value): count for value, count in zip(values.tolist(), counts.tolist(), strict=True)
    }
