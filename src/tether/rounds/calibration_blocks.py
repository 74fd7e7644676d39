"""The calibration rows of a run in blocks, as they were at one moment, whatever the run's length.

Rows are only ever added and each has a number in its lane, so what a lane had reached at one moment
says which rows there were. Each block is read in a short transaction of its own: policies may score
a block for as long as they need. Blocks are in the order of `Rows`, on which stored scores rely.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core.types import Integers
from tether.rounds.errors import TamperedError
from tether.rounds.store import schema
from tether.rounds.store.checkpoints import checkpoint_of, last_checkpointed
from tether.rounds.store.database import PATIENCE_FOR_COPIES, PATIENCE_FOR_ROWS, Store
from tether.rounds.store.fetched_columns import Columns, fetch_columns, fetch_rows
from tether.rounds.store.followed_lane import Chunk, Place, follow_lane
from tether.rounds.store.lanes import first_id, read_lanes, split_ids
from tether.rounds.store.rows import Rows, new_rows
from tether.rounds.store.serving import Serving, read_retired, read_serving
from tether.rounds.store.writer import ACTIONS

ROWS_PER_BLOCK = 1 << 14
"""How many actions are read at once."""
MAX_CHECKPOINTS = 8
"""How many checkpoints are made at most: they are in memory together."""

_OBSERVED = {"action": np.int64, "which": np.int64, "loss": np.float64, "reward": np.float64}


@dataclass(frozen=True)
class Moment:
    """How far a run had come: where each lane was, who served, and what earlier rounds saw.

    `earlier` has the last action of each lane that the calibration of each round saw, in order.
    """

    places: Mapping[int, Place]
    serving: Serving
    retired: frozenset[int]
    earlier: tuple[Mapping[int, int], ...]

    def blocks(self, rows_per_block: int) -> Iterator[list[tuple[int, int]]]:
        """The ids of actions, in the order in which calibrations saw them, some at a time.

        A block is made of ranges: after one id, and up to another.
        """
        block: list[tuple[int, int]] = []
        room = rows_per_block
        for lane, after, last in self._stretches():
            while after < last:
                stop, base = min(last, after + room), first_id(lane)
                block.append((base + after, base + stop))
                room, after = room - (stop - after), stop
                if not room:
                    yield block
                    block, room = [], rows_per_block
        if block:
            yield block

    def _stretches(self) -> Iterator[tuple[int, int, int]]:
        """What each calibration was the first to see of a lane: after one row, up to another."""
        before: dict[int, int] = {}
        now = {lane: place.action or 0 for lane, place in self.places.items()}
        for reached in (*self.earlier, now):
            for lane, last in sorted(reached.items()):
                yield lane, before.get(lane, 0), last
                before[lane] = max(last, before.get(lane, 0))


def read_moment(
    store: Store,
    to: Mapping[int, int] | None = None,
    made: list[dict[str, Any]] | None = None,
) -> Moment:
    """How far the run has come, after a check of all its rows against the hash chain.

    `to`, if given, is the last entry of each lane that is part of it. A lane that has fewer ends
    where it ends. A few checkpoints of rows that have none are added to `made`, if it is given.
    """
    with store.reading(patience=PATIENCE_FOR_COPIES) as connection:
        places = {}
        for number, lane in read_lanes(connection).items():
            if number < 0 or (to is not None and number not in to):
                continue
            place, last = Place(), None if to is None else to[number]
            making = made is not None
            if making:
                place = _checked_to_checkpoint(connection, number, last)
            for chunk in follow_lane(connection, number, place, last):
                if making:
                    making = _add_checkpoint(made, number, place, chunk)
                place = chunk.place
            if to is None and place.head != lane.head:
                raise TamperedError(f"the last entries of lane {number} were removed")
            if place.entry:
                places[number] = place
        earlier = sql.select(schema.rounds.c.seen).order_by(schema.rounds.c.number)
        seen = tuple(map(_last_actions, connection.scalars(earlier)))
        return Moment(places, read_serving(connection), read_retired(connection), seen)


def _checked_to_checkpoint(connection: sql.Connection, lane: int, last: int | None) -> Place:
    """The place of a lane's last checkpoint, after a check of the rows up to there."""
    place, stop = Place(), last_checkpointed(connection, lane)
    for chunk in follow_lane(connection, lane, place, stop if last is None else min(stop, last)):
        place = chunk.place
    return place


def _add_checkpoint(
    made: list[dict[str, Any]] | None, lane: int, before: Place, chunk: Chunk
) -> bool:
    """Whether a checkpoint of a chunk could be added, so that the next one may follow on it."""
    found = checkpoint_of(lane, before, chunk)
    if made is None or found is None or len(made) >= MAX_CHECKPOINTS:
        return False
    made.append(found)
    return True


def _last_actions(seen: str) -> dict[int, int]:
    """The last action of each lane, from what a round keeps of the rows that it saw."""
    return {int(lane): last or 0 for lane, (last, _) in json.loads(seen).items()}


def read_blocks(
    store: Store, moment: Moment, loss_count: int, rows_per_block: int
) -> Iterator[Rows]:
    """The rows of that moment, with the losses of that moment, block after block."""
    for block in moment.blocks(rows_per_block):
        with store.reading(patience=PATIENCE_FOR_ROWS) as connection:
            actions, observed = [], []
            for after, last in block:
                columns, count = fetch_columns(connection, ACTIONS, after, last)
                if count != last - after:
                    raise TamperedError(f"{store.name}: actions after {after} were removed")
                actions.append(columns)
                observed.append(_observations(connection, after, last, moment.places))
            rows = new_rows(connection, loss_count, actions, observed)
        yield rows


def _observations(
    connection: sql.Connection, after: int, last: int, places: Mapping[int, Place]
) -> Columns:
    """What had been observed of the actions after one id and up to another."""
    table = schema.observations
    names = (*_OBSERVED, "number")
    query = sql.select(*(table.c[name] for name in names))
    found = fetch_rows(connection, query.where(table.c.action > after, table.c.action <= last))
    values = list(zip(*found, strict=True)) if found else [()] * len(names)
    columns: dict[str, Any] = {
        name: np.array(values[place], dtype=kind)
        for place, (name, kind) in enumerate(_OBSERVED.items())
    }
    known = _is_known(np.array(values[-1], dtype=np.int64), places)
    return {name: column[known] for name, column in columns.items()}


def _is_known(numbers: Integers, places: Mapping[int, Place]) -> Integers:
    """Where observations had arrived."""
    lanes, numbers_in_lane = split_ids(numbers)
    reached = {lane: place.observation or 0 for lane, place in places.items()}
    found, place_of = np.unique(lanes, return_inverse=True)
    last = np.array([reached.get(int(lane), 0) for lane in found], dtype=np.int64)
    return np.flatnonzero(numbers_in_lane <= last[place_of])
