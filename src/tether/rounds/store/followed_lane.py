"""Reading a lane from where one stopped, and checking what is read against the hash chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether.rounds.errors import TamperedError
from tether.rounds.store import chain, schema
from tether.rounds.store.lanes import NO_HEAD, first_id
from tether.rounds.store.writer import ACTIONS, OBSERVATIONS

ENTRIES_PER_QUERY = 2_000
ROWS_PER_CHUNK = 100_000
"""How many entries and rows are read at a time, so that the database's copy of them stays small."""

CHAINED_TABLES = {
    ACTIONS: (schema.actions, schema.actions.c.id, chain.ACTION_COLUMNS),
    OBSERVATIONS: (schema.observations, schema.observations.c.number, chain.OBSERVATION_COLUMNS),
}
"""The tables that entries cover many rows of, the numbers of rows, and how columns are digested."""

Columns = dict[str, Sequence[Any]]
"""Rows of one table as columns."""


@dataclass(frozen=True)
class Place:
    """Where a reader of a lane stopped: the last entry, its head, and the last rows before it.

    None for a last row means that it is not known: the reader began in the middle.
    """

    entry: int = 0
    head: bytes = NO_HEAD
    action: int | None = 0
    observation: int | None = 0


@dataclass(frozen=True)
class Chunk:
    """Consecutive entries of a lane with the rows that they cover, all of them checked."""

    actions: Columns | None
    observations: Columns | None
    place: Place


def follow_lane(connection: sql.Connection, lane: int, place: Place) -> Iterator[Chunk]:
    """What was written to a lane after `place`, in chunks."""
    while True:
        entries = _read_entries(connection, lane, place.entry)
        if not entries:
            return
        chunk = _read_chunk(connection, lane, place, entries)
        place = chunk.place
        yield chunk


def check_links(lane: int, place: Place, entries: Sequence[Mapping[str, Any]]) -> bytes:
    """Check that entries continue the chain of a lane; the last head."""
    head, number = place.head, place.entry
    for entry in entries:
        number += 1
        if entry["number"] != number:
            raise TamperedError(f"entry {number} of lane {lane} of the hash chain was removed")
        head = chain.link(head, entry)
        if head != entry["head"]:
            raise TamperedError(
                f"entry {number} of lane {lane} of the hash chain was changed, or an entry before "
                f"it was ({entry['kind']} {entry['first']} to {entry['last']})"
            )
    return head


def read_entries(connection: sql.Connection, lane: int, after: int, limit: int) -> list[Any]:
    """Entries of a lane in order, with bytes as bytes."""
    table = schema.entries
    query = sql.select(table).where(table.c.lane == lane, table.c.number > after)
    rows = connection.execute(query.order_by(table.c.number).limit(limit)).mappings()
    binary = ("digest", "head")
    return [dict(row) | {name: bytes(row[name]) for name in binary} for row in rows]


def _read_entries(connection: sql.Connection, lane: int, after: int) -> list[Any]:
    """Some entries, of at most so many rows in all unless the first one alone has more."""
    chosen: list[Any] = []
    rows = 0
    for entry in read_entries(connection, lane, after, ENTRIES_PER_QUERY):
        rows += entry["last"] - entry["first"] + 1
        if chosen and rows > ROWS_PER_CHUNK:
            break
        chosen.append(entry)
    return chosen


def _read_chunk(connection: sql.Connection, lane: int, place: Place, entries: list[Any]) -> Chunk:
    head = check_links(lane, place, entries)
    last = {ACTIONS: place.action, OBSERVATIONS: place.observation}
    found: dict[str, Columns | None] = {ACTIONS: None, OBSERVATIONS: None}
    for kind in CHAINED_TABLES:
        of_kind = [entry for entry in entries if entry["kind"] == kind]
        if of_kind:
            known, first = last[kind], of_kind[0]["first"]
            before = first - 1 if known is None else known
            found[kind] = read_rows(connection, lane, kind, before, of_kind)
            last[kind] = of_kind[-1]["last"]
    reached = Place(entries[-1]["number"], head, last[ACTIONS], last[OBSERVATIONS])
    return Chunk(found[ACTIONS], found[OBSERVATIONS], reached)


def read_rows(
    connection: sql.Connection, lane: int, kind: str, after: int, entries: list[Any]
) -> Columns:
    """The rows that entries cover, each checked against its entry's digest."""
    table, number, kinds = CHAINED_TABLES[kind]
    start = first_id(lane)
    query = (
        sql.select(*(table.c[name] for name in kinds))
        .where(number > start + after, number <= start + entries[-1]["last"])
        .order_by(number)
    )
    rows = connection.execute(query).fetchall()
    names = list(kinds)
    values = zip(*rows, strict=True) if rows else [()] * len(names)
    try:
        columns = {
            name: _typed(column, kinds[name]) for name, column in zip(names, values, strict=True)
        }
    except (TypeError, ValueError, OverflowError) as error:  # not what tether writes there
        raise TamperedError(f"{kind} after {after} of lane {lane} were changed: {error}") from error
    begin = 0
    for entry in entries:
        count = entry["last"] - entry["first"] + 1
        part = {name: column[begin : begin + count] for name, column in columns.items()}
        if entry["first"] != after + 1 or chain.digest_rows(part, kinds) != entry["digest"]:
            raise TamperedError(
                f"{kind} {entry['first']} to {entry['last']} of lane {lane} are not as they were "
                f"written: some were changed, removed or added"
            )
        begin, after = begin + count, entry["last"]
    if begin != len(rows):
        raise TamperedError(f"lane {lane} has {kind} that no entry of the hash chain covers")
    return columns


def _content(value: Any) -> bytes | None:
    if value is None or isinstance(value, (bytes, str)):
        return value.encode() if isinstance(value, str) else value
    if isinstance(value, memoryview):
        return bytes(value)
    raise TypeError(f"{value!r} is neither bytes nor text")


def _typed(column: Sequence[Any], kind: str) -> Sequence[Any]:
    if kind == chain.CONTENT:
        return [_content(each) for each in column]
    dtype = np.int64 if kind == chain.INTEGERS else np.float64
    return np.array(column, dtype=dtype)  # type: ignore[return-value]
