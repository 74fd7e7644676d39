"""Reading a lane from where one stopped, and checking what is read against the hash chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql

from tether.rounds.errors import TamperedError
from tether.rounds.store import chain, schema
from tether.rounds.store.fetched_columns import COLUMNS, Columns, fetch_columns, fetch_rows
from tether.rounds.store.lanes import NO_HEAD, content_bytes, first_id
from tether.rounds.store.writer import ACTIONS, OBSERVATIONS

ENTRIES_PER_QUERY = 10_000
ROWS_PER_CHUNK = 50_000
"""How many entries and rows are read at a time, so that the database's copy of them stays small."""


class Entry(NamedTuple):
    """An entry of the hash chain: its `LINKED_FIELDS` first."""

    lane: int
    number: int
    kind: str
    first: int
    last: int
    round: int | None
    served: int | None
    calibration: int | None
    key: str | None
    attempt: str | None
    note: str | None
    heads: str | None
    digest: bytes
    head: bytes


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


def follow_lane(
    connection: sql.Connection, lane: int, place: Place, last: int | None = None
) -> Iterator[Chunk]:
    """What was written to a lane after `place`, up to entry `last` if it is given, in chunks."""
    waiting: list[Entry] = []
    while True:
        if not waiting:
            limit = (
                ENTRIES_PER_QUERY if last is None else min(ENTRIES_PER_QUERY, last - place.entry)
            )
            waiting = _read_entries(connection, lane, place.entry, limit)
        if not waiting:
            return
        count = _count_for_chunk(waiting)
        chunk = _read_chunk(connection, lane, place, waiting[:count])
        place, waiting = chunk.place, waiting[count:]
        yield chunk


def read_chunk(connection: sql.Connection, lane: int, place: Place, last: int) -> Chunk:
    """What the entries of a lane after `place` cover, up to entry `last`."""
    entries = _read_entries(connection, lane, place.entry, last - place.entry)
    return _read_chunk(connection, lane, place, entries)


def place_after(connection: sql.Connection, lane: int, entry: int) -> Place:
    """The place of a reader that has read a lane up to an entry."""
    if not entry:
        return Place()
    table = schema.entries
    same = (table.c.lane == lane, table.c.number == entry)
    head = connection.scalar(sql.select(table.c.head).where(*same))
    if head is None:
        raise TamperedError(f"entry {entry} of lane {lane} of the hash chain was removed")
    rows = sql.select(table.c.kind, sql.func.max(table.c.last))
    rows = rows.where(table.c.lane == lane, table.c.number <= entry).group_by(table.c.kind)
    last = {row[0]: row[1] for row in connection.execute(rows)}
    return Place(entry, bytes(head), last.get(ACTIONS, 0), last.get(OBSERVATIONS, 0))


def check_links(lane: int, place: Place, entries: Sequence[Mapping[str, Any]]) -> bytes:
    """Check that entries continue the chain of a lane; the last head."""
    return _check_links(lane, place, [as_entry(each) for each in entries])


def as_entry(row: Mapping[str, Any]) -> Entry:
    """A row of the table of entries."""
    return Entry._make(row[name] for name in Entry._fields)


def read_entries(connection: sql.Connection, lane: int, after: int, limit: int) -> list[Any]:
    """Entries of a lane in order, with bytes as bytes."""
    table = schema.entries
    query = sql.select(table).where(table.c.lane == lane, table.c.number > after)
    rows = connection.execute(query.order_by(table.c.number).limit(limit)).mappings()
    binary = ("digest", "head")
    return [dict(row) | {name: content_bytes(row[name]) for name in binary} for row in rows]


def _check_links(lane: int, place: Place, entries: Sequence[Entry]) -> bytes:
    head, number = place.head, place.entry
    for entry in entries:
        number += 1
        if entry.number != number:
            raise TamperedError(f"entry {number} of lane {lane} of the hash chain was removed")
        head = chain.link_fields(head, entry.digest, entry[: len(chain.LINKED_FIELDS)])
        if head != entry.head:
            raise TamperedError(
                f"entry {number} of lane {lane} of the hash chain was changed, or an entry before "
                f"it was ({entry.kind} {entry.first} to {entry.last})"
            )
    return head


def _read_entries(connection: sql.Connection, lane: int, after: int, limit: int) -> list[Entry]:
    table = schema.entries
    query = (
        sql.select(*(table.c[name] for name in Entry._fields))
        .where(table.c.lane == lane, table.c.number > after)
        .order_by(table.c.number)
        .limit(limit)
    )
    return list(map(Entry._make, fetch_rows(connection, query)))


def _count_for_chunk(entries: Sequence[Entry]) -> int:
    """How many of the entries make a chunk: as many as have so many rows, but at least one."""
    rows = np.cumsum([entry.last - entry.first + 1 for entry in entries])
    return max(1, int(np.searchsorted(rows, ROWS_PER_CHUNK, side="right")))


def _read_chunk(
    connection: sql.Connection, lane: int, place: Place, entries: Sequence[Entry]
) -> Chunk:
    head = _check_links(lane, place, entries)
    last = {ACTIONS: place.action, OBSERVATIONS: place.observation}
    found: dict[str, Columns | None] = {ACTIONS: None, OBSERVATIONS: None}
    for kind in COLUMNS:
        of_kind = [entry for entry in entries if entry.kind == kind]
        if of_kind:
            before = last[kind]
            before = of_kind[0].first - 1 if before is None else before
            found[kind] = read_rows(connection, lane, kind, before, of_kind)
            last[kind] = of_kind[-1].last
    reached = Place(entries[-1].number, head, last[ACTIONS], last[OBSERVATIONS])
    return Chunk(found[ACTIONS], found[OBSERVATIONS], reached)


def read_rows(
    connection: sql.Connection, lane: int, kind: str, after: int, entries: Sequence[Entry]
) -> Columns:
    """The rows that entries cover, each checked against its entry's digest."""
    kinds, start = COLUMNS[kind], first_id(lane)
    sizes = [entry.last - entry.first + 1 for entry in entries]
    try:
        columns, count = fetch_columns(connection, kind, start + after, start + entries[-1].last)
        digests = chain.digest_groups(columns, kinds, sizes) if sum(sizes) == count else []
    except (TypeError, ValueError, OverflowError) as error:
        raise TamperedError(
            f"{kind} {entries[0].first} to {entries[-1].last} of lane {lane} are not as they were "
            f"written ({error})"
        ) from error
    for k, entry in enumerate(entries):
        if entry.first != after + 1 or (digests and digests[k] != entry.digest):
            raise TamperedError(
                f"{kind} {entry.first} to {entry.last} of lane {lane} are not as they were "
                f"written: some were changed, removed or added"
            )
        after = entry.last
    if not digests:
        raise TamperedError(
            f"{kind} {entries[0].first} to {entries[-1].last} of lane {lane} are not as they were "
            f"written: {count:,} rows instead of {sum(sizes):,}"
        )
    return columns
