"""All rows of a run as columns in memory: read once, then only what is new.

The order of rows is the same in every process: those that the first calibration saw, then those
that the second one saw, and so on, each by lane and number; columns of scores rely on it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.contexts import take
from tether._core.types import Booleans, Floats, Integers
from tether.policies.shortlist_rows import ShortlistRows
from tether.rounds.store import schema
from tether.rounds.store.codecs import RowCodecs
from tether.rounds.store.followed_lane import Columns, Place, follow_lane
from tether.rounds.store.lanes import read_lanes, split_ids
from tether.rounds.store.queries import read_settings

_NUMERIC_COLUMNS = {
    "round": np.int32,
    "served": np.int32,
    "calibration": np.bool_,
    "log_safe": np.float64,
    "log_optimized": np.float64,
    "log_prob": np.float64,
}
_OBSERVED_COLUMNS = ("loss", "reward", "observation")


@dataclass
class Rows:
    """One row per action. Missing losses and scores are NaN.

    `contexts` are as they were passed in, or their number where there are none; in a run on
    shortlists they are `ShortlistRows`, and `actions` are positions among the candidates.
    `observation` is the number of the row's observation or withdrawal, 0 while it is pending.
    """

    contexts: Any = 0
    actions: Any = None
    ids: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    round: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    served: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    calibration: Booleans = field(default_factory=lambda: np.empty(0, np.bool_))
    log_safe: Floats = field(default_factory=lambda: np.empty(0))
    log_optimized: Floats = field(default_factory=lambda: np.empty(0))
    log_prob: Floats = field(default_factory=lambda: np.empty(0))
    loss: Floats = field(default_factory=lambda: np.empty(0))
    reward: Floats = field(default_factory=lambda: np.empty(0))
    observation: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    places: dict[int, Place] = field(default_factory=dict)
    settled: int = 0
    settled_round: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def observed(self) -> Booleans:
        """Rows whose loss has arrived."""
        return ~np.isnan(self.loss)

    @property
    def withdrawn(self) -> Booleans:
        """Rows that were never carried out."""
        return np.asarray((self.observation > 0) & np.isnan(self.loss))

    @property
    def pending(self) -> Booleans:
        """Rows whose loss is still missing."""
        return np.asarray(self.observation == 0)

    @property
    def seen(self) -> str:
        """How much of each lane has been read, as JSON: its last action and observation."""
        reached = {
            str(lane): [place.action, place.observation] for lane, place in self.places.items()
        }
        return json.dumps(reached)

    def refresh(self, connection: sql.Connection) -> None:
        """Read what was written since the last call, and check it against the hash chain."""
        observed: list[Columns] = []
        places = dict(self.places)
        fresh = Rows.__new__(Rows)  # changed only once everything is read: reading may fail
        fresh.__dict__.update(self.__dict__)
        for lane in read_lanes(connection):
            if lane < 0:
                continue
            for chunk in follow_lane(connection, lane, places.get(lane, Place())):
                if chunk.actions is not None:
                    fresh._add_actions(connection, chunk.actions)
                if chunk.observations is not None:
                    observed.append(chunk.observations)
                places[lane] = chunk.place
        fresh.places = places
        if observed:
            fresh._add_observations(observed)
        fresh._settle(connection)
        self.__dict__.update(fresh.__dict__)

    def _add_actions(self, connection: sql.Connection, new: Columns) -> None:
        codecs = read_codecs(connection)
        contexts = codecs.decode_contexts(new["context"], new["candidates"])
        self.contexts = _concatenated(self.contexts, contexts)
        self.actions = _concatenated(self.actions, codecs.action.decode(new["action"]))
        self.ids = np.concatenate([self.ids, np.asarray(new["id"])])
        for name, kind in _NUMERIC_COLUMNS.items():
            more: NDArray[Any] = np.asarray(new[name]).astype(kind)
            self.__dict__[name] = np.concatenate([getattr(self, name), more])
        unknown = np.full(len(new["id"]), np.nan)
        self.loss = np.concatenate([self.loss, unknown])
        self.reward = np.concatenate([self.reward, unknown])
        self.observation = np.concatenate([self.observation, np.zeros(len(unknown), np.int64)])

    def _add_observations(self, observed: list[Columns]) -> None:
        columns = {
            name: np.concatenate([np.asarray(each[name]) for each in observed])
            for name in ("action", "number", "loss", "reward")
        }
        order = np.argsort(self.ids)
        place = order[np.searchsorted(self.ids, columns["action"], sorter=order)]
        columns["observation"] = columns.pop("number")
        for name in _OBSERVED_COLUMNS:
            values = getattr(self, name).copy()
            values[place] = columns[name]
            self.__dict__[name] = values

    def _settle(self, connection: sql.Connection) -> None:
        """Put new rows into the order in which calibrations saw them."""
        table = schema.rounds
        query = sql.select(table.c.number, table.c.seen).where(table.c.number > self.settled_round)
        rounds = connection.execute(query.order_by(table.c.number)).fetchall()
        tail = np.arange(self.settled, len(self))
        lanes, numbers = split_ids(self.ids[tail])
        saw = np.full(len(tail), len(rounds))  # the first of these calibrations that saw a row
        for lane in np.unique(lanes).tolist():
            reached = [json.loads(text).get(str(lane), [0, 0])[0] for _, text in rounds]
            saw[lanes == lane] = np.searchsorted(reached, numbers[lanes == lane])
        order = np.lexsort((numbers, lanes, saw))
        if (np.diff(order) != 1).any():
            self._reorder(np.concatenate([np.arange(self.settled), tail[order]]))
        self.settled += int((saw < len(rounds)).sum())
        self.settled_round = rounds[-1][0] if rounds else self.settled_round

    def _reorder(self, order: Integers) -> None:
        for name in ("ids", *_NUMERIC_COLUMNS, *_OBSERVED_COLUMNS, "actions"):
            self.__dict__[name] = getattr(self, name)[order]
        self.contexts = take(self.contexts, order)


def read_codecs(connection: sql.Connection) -> RowCodecs:
    """How contexts and actions are encoded, fixed by the run's first action."""
    return RowCodecs.from_dict(read_settings(connection))


def _concatenated(old: Any, new: Any) -> Any:
    """Concatenate contexts or actions of any supported type."""
    if isinstance(new, int):
        return old + new
    if old is None or isinstance(old, int):
        return new
    if isinstance(new, ShortlistRows):
        contexts = _concatenated(old.contexts, new.contexts)
        return ShortlistRows(contexts, _concatenated(old.candidates, new.candidates))
    if hasattr(new, "iloc"):
        import pandas as pd

        return pd.concat([old, new], ignore_index=True)
    return np.concatenate([old, new])
