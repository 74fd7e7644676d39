"""The calibration rows of a run in blocks, as they were at one moment, whatever the run's length.

Rows are only ever added and each has a number in its lane, so what a lane had reached at one moment
says which rows there were. Each block is read in a short transaction of its own: policies may score
a block for as long as they need.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core.types import Integers
from tether.rounds.errors import TamperedError
from tether.rounds.store import schema
from tether.rounds.store.database import PATIENCE_FOR_COPIES, PATIENCE_FOR_ROWS, Store
from tether.rounds.store.export_format import digest_heads
from tether.rounds.store.fetched_columns import Columns, fetch_columns, fetch_rows
from tether.rounds.store.followed_lane import Place, follow_lane
from tether.rounds.store.lanes import first_id, read_lanes, split_ids
from tether.rounds.store.queries import read_all
from tether.rounds.store.rows import Rows, new_rows
from tether.rounds.store.serving import Serving, read_retired, read_serving
from tether.rounds.store.writer import ACTIONS

ROWS_PER_BLOCK = 1 << 14
"""How many actions are read at once."""

_OBSERVED = {"action": np.int64, "which": np.int64, "loss": np.float64, "reward": np.float64}


@dataclass(frozen=True)
class Moment:
    """How far a run had come: the last action and observation of each lane, and who served.

    `heads` is the digest of all lanes' hash chains.
    """

    reached: dict[int, tuple[int, int]]
    heads: str
    serving: Serving
    retired: frozenset[int]

    @property
    def seen(self) -> str:
        """The last action and observation of each lane, as JSON: as a round keeps it."""
        return json.dumps({str(lane): list(last) for lane, last in self.reached.items()})


def read_moment(store: Store) -> Moment:
    """How far the run has come, after a check of all its rows against the hash chain."""
    with store.reading(patience=PATIENCE_FOR_COPIES) as connection:
        reached = {}
        for number, lane in read_lanes(connection).items():
            if number >= 0:
                place = Place()
                for chunk in follow_lane(connection, number, place):
                    place = chunk.place
                if place.head != lane.head:
                    raise TamperedError(f"the last entries of lane {number} were removed")
                reached[number] = (place.action or 0, place.observation or 0)
        heads = digest_heads(read_all(connection, schema.lanes)).hex()
        return Moment(reached, heads, read_serving(connection), read_retired(connection))


def read_blocks(store: Store, moment: Moment, loss_count: int) -> Iterator[Rows]:
    """The calibration rows of that moment, with the losses of that moment, block after block."""
    for lane, (last, _) in moment.reached.items():
        base = first_id(lane)
        for begin in range(0, last, ROWS_PER_BLOCK):
            ids = (base + begin, base + min(last, begin + ROWS_PER_BLOCK))
            with store.reading(patience=PATIENCE_FOR_ROWS) as connection:
                actions, count = fetch_columns(connection, ACTIONS, *ids)
                if count != ids[1] - ids[0]:
                    raise TamperedError(f"{store.name}: actions of lane {lane} were removed")
                observed = _observations(connection, *ids, moment.reached)
                rows = new_rows(connection, loss_count, actions, observed)
            yield rows


def _observations(
    connection: sql.Connection, after: int, last: int, reached: dict[int, tuple[int, int]]
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
    known = _is_known(np.array(values[-1], dtype=np.int64), reached)
    return {name: column[known] for name, column in columns.items()}


def _is_known(numbers: Integers, reached: dict[int, tuple[int, int]]) -> Integers:
    """Where observations had arrived."""
    lanes, places = split_ids(numbers)
    last = np.array([reached.get(int(lane), (0, 0))[1] for lane in lanes], dtype=np.int64)
    return np.flatnonzero(places <= last)
