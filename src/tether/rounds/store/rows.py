"""All rows of a run as columns in memory: read once, then only what is new.

The order of rows is the same in every process: those that the first calibration saw, then those
that the second one saw, and so on, each by lane and number; columns of scores rely on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.arrays import Booleans, Floats, Integers
from tether._core.contexts import take
from tether.policies.picker import ShortlistRows
from tether.rounds.errors import TamperedError
from tether.rounds.store import schema
from tether.rounds.store.checkpoints import follow_from_checkpoints
from tether.rounds.store.codecs import RowCodecs
from tether.rounds.store.fetched_columns import Columns
from tether.rounds.store.followed_lane import Place
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
_OBSERVED_COLUMNS = ("losses", "reward", "withdrawn")
_OBSERVATION_COLUMNS = ("action", "which", "loss", "reward")


@dataclass
class Rows:
    """One row per action. Missing losses and scores are NaN.

    `contexts` are as they were passed in, or their number where there are none; in a run on
    shortlists they are `ShortlistRows`, and `actions` are positions among the candidates. `losses`
    has a column for each of the `loss_count` losses of the run; `withdrawn` rows were never carried
    out.
    """

    loss_count: int = 1
    contexts: Any = 0
    actions: Any = None
    ids: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    round: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    served: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    calibration: Booleans = field(default_factory=lambda: np.empty(0, np.bool_))
    log_safe: Floats = field(default_factory=lambda: np.empty(0))
    log_optimized: Floats = field(default_factory=lambda: np.empty(0))
    log_prob: Floats = field(default_factory=lambda: np.empty(0))
    reward: Floats = field(default_factory=lambda: np.empty(0))
    withdrawn: Booleans = field(default_factory=lambda: np.empty(0, np.bool_))
    places: dict[int, Place] = field(default_factory=dict)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)  # made and not yet stored
    settled: int = 0
    settled_round: int = 0

    def __post_init__(self) -> None:
        self.losses: Floats = np.empty((0, self.loss_count))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def observed(self) -> Booleans:
        """Rows whose losses have arrived, all of them."""
        return np.asarray(~np.isnan(self.losses).any(axis=1))

    @property
    def pending(self) -> Booleans:
        """Rows of which a loss is still missing."""
        return ~self.observed & ~self.withdrawn

    @property
    def seen(self) -> str:
        """How much of each lane has been read, as JSON: its last action and observation."""
        reached = {
            str(lane): [place.action, place.observation] for lane, place in self.places.items()
        }
        return json.dumps(reached)

    def refresh(self, connection: sql.Connection) -> None:
        """Read what was written since the last call, and check it against the hash chain."""
        taken = _NewActions()
        observed: list[Columns] = []
        places, checkpoints = dict(self.places), list(self.checkpoints)
        for lane, reached in read_lanes(connection).items():
            if lane < 0:
                continue
            place = places.get(lane, Place())
            for chunk in follow_from_checkpoints(connection, reached, place, checkpoints):
                if chunk.actions is not None:
                    taken.add(connection, chunk.actions)
                if chunk.observations is not None:
                    observed.append(
                        {name: chunk.observations[name] for name in _OBSERVATION_COLUMNS}
                    )
                places[lane] = chunk.place
        fresh = Rows.__new__(Rows)  # changed only once everything is read: reading may fail
        fresh.__dict__.update(self.__dict__)
        fresh.places, fresh.checkpoints = places, checkpoints
        fresh._add_actions(taken)
        fresh._add_observations(observed)
        fresh._settle(connection)
        self.__dict__.update(fresh.__dict__)

    def _add_actions(self, new: _NewActions) -> None:
        if not new.ids:
            return
        self.contexts = _concatenated([self.contexts, *new.contexts])
        self.actions = _concatenated([self.actions, *new.actions])
        self.ids = np.concatenate([self.ids, *new.ids])
        for name, columns in new.numeric.items():
            self.__dict__[name] = np.concatenate([getattr(self, name), *columns])
        unknown = np.full((len(self.ids) - len(self.losses), self.loss_count), np.nan)
        self.losses = np.concatenate([self.losses, unknown])
        self.reward = np.concatenate([self.reward, unknown[:, 0]])
        self.withdrawn = np.concatenate([self.withdrawn, np.zeros(len(unknown), np.bool_)])

    def _add_observations(self, observed: list[Columns]) -> None:
        if not observed:
            return
        find = self._place_finder()
        self.losses, self.reward = self.losses.copy(), self.reward.copy()
        self.withdrawn = self.withdrawn.copy()
        for columns in observed:
            which = np.asarray(columns["which"])
            if not 0 <= which.min() <= which.max() < self.loss_count:
                raise TamperedError("observations are of losses that the run does not have")
            place = find(np.asarray(columns["action"]))
            loss, reward = np.asarray(columns["loss"]), np.asarray(columns["reward"])
            self.losses[place, which] = loss
            rewarded = ~np.isnan(reward)
            self.reward[place[rewarded]] = reward[rewarded]
            self.withdrawn[place[np.isnan(loss)]] = True

    def _place_finder(self) -> Callable[[Integers], Integers]:
        """A function that finds where the rows with some ids are."""
        known, count = self.ids, len(self.ids)
        is_range = count and known[-1] - known[0] == count - 1 and _is_sorted(known)
        order = None if is_range else np.argsort(known, kind="stable")  # several lanes

        def find(ids: Integers) -> Integers:
            if not count:
                place = np.empty(0, np.int64)
            elif order is None:
                place = np.clip(ids - known[0], 0, count - 1)
            else:
                place = order[np.searchsorted(known, ids, sorter=order).clip(max=count - 1)]
            if not count or not np.array_equal(known[place], ids):
                raise TamperedError("observations are of actions that the run does not have")
            return place

        return find

    def _settle(self, connection: sql.Connection) -> None:
        """Put new rows into the order in which calibrations saw them."""
        table = schema.rounds
        query = sql.select(table.c.number, table.c.seen).where(table.c.number > self.settled_round)
        rounds = connection.execute(query.order_by(table.c.number)).fetchall()
        seen = [json.loads(text) for _, text in rounds]
        tail = np.arange(self.settled, len(self))
        lanes, numbers = split_ids(self.ids[tail])
        saw = np.full(len(tail), len(rounds))  # the first of these calibrations that saw a row
        for lane in np.unique(lanes).tolist():
            reached = [each.get(str(lane), [0, 0])[0] for each in seen]
            saw[lanes == lane] = np.searchsorted(reached, numbers[lanes == lane])
        if not _is_sorted(saw, lanes, numbers):
            order = np.lexsort((numbers, lanes, saw))
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


class _NewActions:
    """Rows of actions that were read, in parts."""

    def __init__(self) -> None:
        self.contexts: list[Any] = []
        self.actions: list[Any] = []
        self.ids: list[Any] = []
        self.numeric: dict[str, list[Any]] = {name: [] for name in _NUMERIC_COLUMNS}
        self._codecs: RowCodecs | None = None

    def add(self, connection: sql.Connection, new: Columns) -> None:
        """Decode one part."""
        self._codecs = codecs = self._codecs or read_codecs(connection)
        self.contexts.append(codecs.decode_contexts(new["context"], new["candidates"]))
        self.actions.append(codecs.action.decode(new["action"]))
        self.ids.append(new["id"])
        for name, kind in _NUMERIC_COLUMNS.items():
            self.numeric[name].append(np.asarray(new[name]).astype(kind, copy=False))


def _is_sorted(*keys: NDArray[Any]) -> bool:
    """Whether rows are in the order of the first key, then of the second, and so on."""
    tied = np.ones(max(0, len(keys[0]) - 1), np.bool_)
    for key in keys:
        if ((key[1:] < key[:-1]) & tied).any():
            return False
        tied &= key[1:] == key[:-1]
    return True


def _concatenated(parts: list[Any]) -> Any:
    """Concatenate contexts or actions of any supported type; the first part may be nothing."""
    last = parts[-1]
    if isinstance(last, int):
        return sum(parts)
    if parts[0] is None or isinstance(parts[0], int):
        parts = parts[1:]
    if len(parts) == 1:
        return last
    if isinstance(last, ShortlistRows):
        contexts = _concatenated([each.contexts for each in parts])
        return ShortlistRows(contexts, _concatenated([each.candidates for each in parts]))
    if hasattr(last, "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    return np.concatenate(parts)
