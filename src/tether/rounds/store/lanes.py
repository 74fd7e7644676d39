"""Lanes: several writers number their rows at once, each in a lane of its own.

A lane is taken for one transaction, the first that is free, so numbers within a lane have no gaps
and are committed in order: what a reader has seen of a lane never changes. An id is both, as one
integer: lane · 2^40 + number. SQLite has one writer and needs lane 0 alone, so its ids are 1, 2, ….
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sql
from numpy.typing import NDArray

from tether.rounds.store import schema

LANE_BITS = 40
"""How many bits of an id are the number in its lane."""
MAX_LANES = 64
"""How many transactions may act or observe at once; more wait."""
FIRST_SPOOL_LANE = 1 << 16
"""Lanes from here on belong to spools: rows that were taken while the store was unavailable."""
LANE_LIMIT = 1 << 22
"""Lanes are below this, so that an id fits in 63 bits."""
CONTROL_LANE, SCORES_LANE = -1, -2
"""The lanes of records that are written one at a time, and of columns of scores."""
NO_HEAD = bytes(32)
"""The head of a lane before its first entry."""


@dataclass
class Lane:
    """How far a lane has come: the last numbers that it assigned, and the head of its chain.

    `is_stored` says whether the store has it yet.
    """

    lane: int
    last_action: int = 0
    last_observation: int = 0
    last_entry: int = 0
    head: bytes = NO_HEAD
    is_stored: bool = False


def content_bytes(value: Any) -> bytes:
    """Bytes from the database; anything else is not what tether writes."""
    if not isinstance(value, (bytes, memoryview)):
        raise TypeError(f"{value!r} is not bytes")
    return bytes(value)


def first_id(lane: int) -> int:
    """The id before the first one of a lane."""
    return lane << LANE_BITS


def split_ids(ids: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The lanes of ids, and the numbers in them."""
    return ids >> LANE_BITS, ids & ((1 << LANE_BITS) - 1)


def read_lanes(connection: sql.Connection) -> dict[int, Lane]:
    """All lanes of a store, in order."""
    return {row.lane: lane_from_row(row) for row in connection.execute(_LANES)}


def read_lane(connection: sql.Connection, lane: int) -> Lane:
    """One lane, new if the store does not have it."""
    row = connection.execute(_LANE, {"number": lane}).one_or_none()
    return Lane(lane) if row is None else lane_from_row(row)


def lane_from_row(row: Sequence[Any]) -> Lane:
    """A lane from the columns of its table."""
    lane, action, observation, entry, head = row
    return Lane(lane, action, observation, entry, content_bytes(head), is_stored=True)


def lane_values(lane: Lane) -> dict[str, Any]:
    """A lane as its table has it."""
    return {column.name: getattr(lane, column.name) for column in schema.lanes.c}


def write_lane(connection: sql.Connection, lane: Lane) -> None:
    """Store how far a lane has come."""
    values = lane_values(lane)
    if lane.is_stored:
        number = values.pop("lane")
        connection.execute(_UPDATE, values | {"number": number})
    else:
        connection.execute(schema.lanes.insert(), values)
        lane.is_stored = True


_LANES = sql.select(schema.lanes).order_by(schema.lanes.c.lane)
_LANE = sql.select(schema.lanes).where(
    schema.lanes.c.lane == sql.bindparam("number", type_=sql.Integer)
)
_UPDATE = schema.lanes.update().where(
    schema.lanes.c.lane == sql.bindparam("number", type_=sql.Integer)
)
