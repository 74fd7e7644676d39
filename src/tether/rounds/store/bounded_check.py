"""Checking a lane against the hash chain in bounded memory, however large the calls were.

Small calls are read and checked together. The rows of a large one are digested column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sql

from tether.rounds.errors import TamperedError
from tether.rounds.store import chain
from tether.rounds.store.fetched_columns import COLUMNS, KEYS, Columns
from tether.rounds.store.followed_lane import (
    ENTRIES_PER_QUERY,
    Place,
    as_entry,
    check_links,
    read_entries,
    read_rows,
)
from tether.rounds.store.lanes import first_id
from tether.rounds.store.table_pages import read_pages
from tether.rounds.store.writer import ACTIONS, OBSERVATIONS

ROWS_CHECKED_TOGETHER = 2**15
BYTES_CHECKED_TOGETHER = 2**22


def check_lane_rows(connection: sql.Connection, lane: int, place: Place) -> Place:
    """Check all rows of a lane after a place; the place at its end. Raises TamperedError."""
    while entries := read_entries(connection, lane, place.entry, ENTRIES_PER_QUERY):
        head = check_links(lane, place, entries)
        last = {ACTIONS: place.action, OBSERVATIONS: place.observation}
        for batch in _batches(entries):
            kind = batch[0]["kind"]
            before = last[kind]
            _check_batch(
                connection, lane, batch, batch[0]["first"] - 1 if before is None else before
            )
            last[kind] = batch[-1]["last"]
        place = replace(
            place,
            entry=entries[-1]["number"],
            head=head,
            action=last[ACTIONS],
            observation=last[OBSERVATIONS],
        )
    return place


def _batches(entries: list[Any]) -> Iterator[list[Any]]:
    """Entries of each kind in order, as many together as have few rows."""
    for kind in COLUMNS:
        batch: list[Any] = []
        rows = 0
        for entry in entries:
            if entry["kind"] != kind:
                continue
            count = entry["last"] - entry["first"] + 1
            if batch and rows + count > ROWS_CHECKED_TOGETHER:
                yield batch
                batch, rows = [], 0
            batch.append(entry)
            rows += count
        if batch:
            yield batch
    unknown = [entry for entry in entries if entry["kind"] not in COLUMNS]
    if unknown:
        raise TamperedError(
            f"entry {unknown[0]['number']} of lane {unknown[0]['lane']} is of a kind that tether "
            f"does not write: {unknown[0]['kind']!r}"
        )


def _check_batch(connection: sql.Connection, lane: int, batch: list[Any], after: int) -> None:
    kind = batch[0]["kind"]
    number, kinds, start = KEYS[kind], COLUMNS[kind], first_id(lane)
    table = number.table
    within = (number > start + after, number <= start + batch[-1]["last"])
    varying = [table.c[name] for name, each in kinds.items() if each == chain.CONTENT]
    size = sum((sql.func.coalesce(sql.func.length(each), 0) for each in varying), sql.literal(0))
    count, total = connection.execute(
        sql.select(sql.func.count(), sql.func.sum(size)).select_from(table).where(*within)
    ).one()
    if count <= ROWS_CHECKED_TOGETHER and (total or 0) <= BYTES_CHECKED_TOGETHER:
        read_rows(connection, lane, kind, after, [as_entry(each) for each in batch])
        return
    if len(batch) > 1:
        for entry in batch:
            _check_batch(connection, lane, [entry], after)
            after = entry["last"]
        return
    entry = batch[0]
    limits = {"after": start + after, "until": start + entry["last"]}

    def read(*names: str) -> Iterator[Columns]:
        chosen = {name: table.c[name] for name in names}
        for page in read_pages(connection, chosen, table, [number], **limits):
            yield {name: [row[name] for row in page] for name in names}

    try:
        digest = digest_in_parts(read, kinds)
    except (TypeError, ValueError, OverflowError):  # not what tether writes there
        digest = b""
    if entry["first"] != after + 1 or digest != entry["digest"]:
        raise TamperedError(
            f"{kind} {entry['first']} to {entry['last']} of lane {lane} are not as they were "
            f"written: some were changed, removed or added"
        )


def digest_in_parts(read: Callable[..., Iterator[Columns]], kinds: Mapping[str, str]) -> bytes:
    """The same as `chain.digest_rows`, of columns that are read in parts, twice where needed."""
    state = chain.start_digest(kinds)
    for part in read(*kinds):
        lengths: dict[str, Any] = {
            name: chain.join_content(part[name])[0] for name in chain.content_columns(kinds)
        }
        state.update(chain.fixed_part({**part, **lengths}, kinds))
    for name in chain.content_columns(kinds):
        for part in read(name):
            state.update(chain.join_content(part[name])[1])
    return state.digest()
