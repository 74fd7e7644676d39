"""Whether a store holds what tether wrote, and nothing else: the hash chain, checked.

Everything is checked by `find_tampering`. On opening a store `check_opened` does the same for its
records and for the last entries of each lane; the rest is checked when it is read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether.rounds.errors import TamperedError, as_tampering
from tether.rounds.releases.step import Step
from tether.rounds.run_settings import KIND_SETTING, decides_shares
from tether.rounds.store import chain, schema
from tether.rounds.store.bounded_check import check_lane_rows
from tether.rounds.store.followed_lane import (
    ENTRIES_PER_QUERY,
    Place,
    check_links,
    read_entries,
)
from tether.rounds.store.lanes import CONTROL_LANE, SCORES_LANE, Lane, read_lanes
from tether.rounds.store.queries import calibration_from_json
from tether.rounds.store.stored_types import find_repeated_keys, find_wrong_types
from tether.rounds.store.table_pages import read_pages
from tether.rounds.store.verify_scores import find_stray_scores
from tether.rounds.store.writer import CHECKPOINT, COLUMN, record_kind

ENTRIES_CHECKED_ON_OPENING, ROWS_CHECKED_ON_OPENING = 1_000, 20_000
"""How many of the last entries of each lane are checked when a store is opened, and how many rows
they may have, unless the last one alone has more."""
RECORDS_PER_QUERY = 500
"""How many records are read at a time to be checked."""
RECORD_TABLES = {
    record_kind(table): table
    for table in (
        schema.settings,
        schema.rounds,
        schema.alarms,
        schema.audit,
        schema.unstored,
        schema.policies,
    )
}


def find_tampering(connection: sql.Connection) -> Iterator[str]:
    """What is wrong with a store, one sentence for each finding; nothing if all is well."""
    wrong = [*find_wrong_types(connection), *find_repeated_keys(connection)]
    if wrong:
        yield from wrong
        return  # it cannot be read
    try:
        with as_tampering("the list of lanes"):
            lanes = read_lanes(connection)
    except TamperedError as error:
        yield str(error)
        return
    written = connection.scalars(sql.select(schema.entries.c.lane).distinct())
    for number in sorted(set(written) - set(lanes)):
        yield f"lane {number} of the hash chain was removed or added"
    for number, lane in lanes.items():
        try:
            with as_tampering(f"lane {number}"):
                _check_lane(connection, number, lane)
        except TamperedError as error:
            yield str(error)
    yield from _find_uncovered(connection, lanes)
    try:
        with as_tampering("the lane of scores"):
            wrong = list(find_stray_scores(connection))
    except TamperedError as error:
        wrong = [str(error)]
    yield from wrong
    yield from _find_wrong_rounds(connection)


def check_opened(connection: sql.Connection) -> None:
    """Check the records, and the last entries of each lane; raises TamperedError."""
    with as_tampering("the store"):
        for number, lane in read_lanes(connection).items():
            place = _place_before_end(connection, number, lane) if number >= 0 else Place()
            if number != SCORES_LANE:
                _check_lane(connection, number, lane, place)
    for finding in _find_wrong_rounds(connection):
        raise TamperedError(finding)


def _check_lane(
    connection: sql.Connection, number: int, lane: Lane, place: Place | None = None
) -> None:
    place = Place() if place is None else place
    if number >= 0:
        place = check_lane_rows(connection, number, place)
    else:
        place = _check_records(connection, number, place)
    rows = (place.action, place.observation) if number >= 0 else (0, 0)
    given = zip(rows, (lane.last_action, lane.last_observation), strict=True)
    if (place.entry, place.head) != (lane.last_entry, lane.head) or any(
        row is not None and row != last for row, last in given
    ):
        raise TamperedError(
            f"lane {number} ends at entry {place.entry} of the hash chain, but {lane.last_entry} "
            f"were written: the end of it was removed or added"
        )


def _place_before_end(connection: sql.Connection, number: int, lane: Lane) -> Place:
    """Where the last entries of a lane begin that are checked on opening."""
    after = max(0, lane.last_entry - ENTRIES_CHECKED_ON_OPENING)
    entries = read_entries(connection, number, after - 1 if after else 0, lane.last_entry)
    sizes = [entry["last"] - entry["first"] + 1 for entry in reversed(entries)]
    few = int(np.searchsorted(np.cumsum(sizes), ROWS_CHECKED_ON_OPENING, side="right"))
    after = max(after, lane.last_entry - max(few, 1))
    if after == 0:
        return Place()
    found = [entry for entry in entries if entry["number"] == after]
    if not found:
        raise TamperedError(f"entry {after} of lane {number} of the hash chain was removed")
    return Place(after, found[0]["head"], None, None)


def _check_records(connection: sql.Connection, number: int, place: Place) -> Place:
    """Check every entry of the control lane, or of the lane of scores, and what it covers."""
    while True:
        entries = read_entries(connection, number, place.entry, ENTRIES_PER_QUERY)
        if not entries:
            return place
        head = check_links(number, place, entries)
        if number == SCORES_LANE:
            _check_pieces(connection, entries)
        else:
            _check_covered_records(connection, entries)
            _check_heads(connection, entries)
        place = Place(entries[-1]["number"], head)


def _check_covered_records(connection: sql.Connection, entries: list[dict[str, Any]]) -> None:
    """Check the records that entries of the control lane cover."""
    for kind in dict.fromkeys(entry["kind"] for entry in entries):
        table = RECORD_TABLES[kind]
        own = [entry for entry in entries if entry["kind"] == kind]
        few = 1 if table is schema.policies else RECORDS_PER_QUERY  # policies may be large
        for start in range(0, len(own), few):
            part = own[start : start + few]
            keys = [_record_key(entry) for entry in part]
            column = next(iter(table.primary_key))
            rows = connection.execute(sql.select(table).where(column.in_(keys))).mappings()
            found = {row[column.name]: dict(row) for row in rows}
            for entry, key in zip(part, keys, strict=True):
                if chain.digest_record(found.get(key, {})) != entry["digest"]:
                    raise TamperedError(f"{kind} {key}: changed or removed after it was written")


def _record_key(entry: dict[str, Any]) -> Any:
    return entry["note"] if entry["first"] is None else entry["first"]


def _check_heads(connection: sql.Connection, entries: list[dict[str, Any]]) -> None:
    """Check that the other lanes contain what they contained when entries were written."""
    table = schema.entries
    wanted: dict[tuple[int, int], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for entry in entries:
        for lane, (number, head) in json.loads(entry["heads"]).items():
            if number:
                wanted[int(lane), number].append((head, entry))
    for lane in {lane for lane, _ in wanted}:
        numbers = [number for of_lane, number in wanted if of_lane == lane]
        found: dict[int, str] = {}
        for start in range(0, len(numbers), RECORDS_PER_QUERY):
            part = numbers[start : start + RECORDS_PER_QUERY]
            query = sql.select(table.c.number, table.c.head)
            query = query.where(table.c.lane == lane, table.c.number.in_(part))
            found |= {number: bytes(head).hex() for number, head in connection.execute(query)}
        for number in numbers:
            for head, entry in wanted[lane, number]:
                if found.get(number) != head:
                    raise TamperedError(
                        f"entry {number} of lane {lane} of the hash chain is not the one that "
                        f"{entry['kind']} {entry['first'] or entry['note']} was written after"
                    )


def _check_pieces(connection: sql.Connection, entries: list[dict[str, Any]]) -> None:
    """Check the pieces of scores, and the checkpoints, that consecutive entries cover."""
    entry, piece = schema.entries, schema.columns
    covered = (
        (piece.c.round == entry.c.round)
        & (piece.c.name == entry.c.note)
        & (piece.c.start == entry.c.first)
        & (piece.c.policy == entry.c.served)
    )
    source = entry.outerjoin(piece, covered)
    columns = {name: piece.c[name] for name in ("values", "numbers", "count")}
    limits = {
        "after": (SCORES_LANE, entries[0]["number"] - 1),
        "until": (SCORES_LANE, entries[-1]["number"]),
    }
    pages = read_pages(connection, columns, source, [entry.c.lane, entry.c.number], **limits)
    rows = (row for page in pages for row in page)
    for given, row in zip(entries, rows, strict=True):
        if given["kind"] == CHECKPOINT:
            _check_checkpoint(connection, given)
        elif (
            row["values"] is None
            or chain.digest_piece(row["numbers"], row["values"]) != given["digest"]
            or row["count"] != given["last"] - given["first"] + 1
        ):
            raise TamperedError(
                f"scores {given['note']!r} of round {given['round']} from row {given['first']} on: "
                f"changed or removed after they were written"
            )


def _check_checkpoint(connection: sql.Connection, entry: dict[str, Any]) -> None:
    table = schema.checkpoints
    same = (table.c.lane == int(entry["note"]), table.c.first == entry["first"])
    row = connection.execute(sql.select(table).where(*same)).one_or_none()
    if (
        row is None
        or chain.digest_checkpoint(row.place, bytes(row.content)) != entry["digest"]
        or row.last != entry["last"]
    ):
        raise TamperedError(
            f"the checkpoint of lane {entry['note']} from entry {entry['first']} on was changed or "
            f"removed after it was written"
        )


def _find_uncovered(connection: sql.Connection, lanes: dict[int, Lane]) -> Iterator[str]:
    """Rows, records and pieces that no entry covers."""
    data = [lane for number, lane in lanes.items() if number >= 0]
    expected = {
        schema.actions: sum(lane.last_action for lane in data),
        schema.observations: sum(lane.last_observation for lane in data),
    }
    entry, count = schema.entries, sql.func.count()
    for kind, table in RECORD_TABLES.items():
        written = sql.select(count).where(entry.c.lane == CONTROL_LANE, entry.c.kind == kind)
        expected[table] = connection.scalar(written) or 0
    expected[schema.settings] += 1  # the version
    for kind, table in ((COLUMN, schema.columns), (CHECKPOINT, schema.checkpoints)):
        written = sql.select(count).where(entry.c.lane == SCORES_LANE, entry.c.kind == kind)
        expected[table] = connection.scalar(written) or 0
    for table, number in expected.items():
        found = connection.scalar(sql.select(count).select_from(table)) or 0
        if found != number:
            name = record_kind(table)
            yield f"{name}: the store has {found:,} rows, but the hash chain covers {number:,}"


def _find_wrong_rounds(connection: sql.Connection) -> Iterator[str]:
    """Rounds whose beta is not the one that their calibration found; steps likewise."""
    table = schema.rounds
    if decides_shares({name: _setting(connection, name) for name in (KIND_SETTING, "family")}):
        yield from _find_wrong_step_records(connection)
        return
    query = sql.select(table.c.number, table.c.log_beta, table.c.calibration)
    for number, log_beta, text in connection.execute(query.order_by(table.c.number)):
        try:
            calibration = calibration_from_json(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            yield f"round {number}: its calibration cannot be read ({error})"
            continue
        found = -float("inf") if calibration is None else calibration.log_beta
        if log_beta not in (found, -float("inf")):
            yield (f"round {number}: log_beta is {log_beta!r}, but its calibration found {found!r}")


def _setting(connection: sql.Connection, name: str) -> Any:
    table = schema.settings
    value = connection.scalar(sql.select(table.c.value).where(table.c.name == name))
    return None if value is None else json.loads(value)


def _find_wrong_step_records(connection: sql.Connection) -> Iterator[str]:
    """Steps that contradict themselves; without a share the safe policy serves alone."""
    table = schema.rounds
    for row in connection.execute(sql.select(table).order_by(table.c.number)).mappings():
        try:
            if row["calibration"] is None and row["log_beta"] == -float("inf"):
                continue
            Step.from_row(dict(row))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            yield f"step {row['number']}: it cannot be read ({error})"
