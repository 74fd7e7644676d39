"""Checkpoints: the numbers of many rows in one place, so that a new process need not read each row.

A checkpoint covers consecutive entries of a lane. It was made from rows that were checked, holds
their numbers and losses, and a digest of their contexts and actions, which are not copied. The hash
chain of scores covers it. A run has none before its first `MIN_ROWS` rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether.rounds.errors import TamperedError
from tether.rounds.store import chain, schema
from tether.rounds.store.followed_lane import (
    ENTRIES_PER_QUERY,
    Chunk,
    Columns,
    Place,
    check_links,
    fetch_rows,
    follow_lane,
    read_entries,
)
from tether.rounds.store.lanes import SCORES_LANE, Lane, first_id, read_lanes
from tether.rounds.store.writer import CHECKPOINT, Writer

MIN_ROWS = 10_000
"""How many rows and losses a lane has after its last checkpoint, at least, when one is made."""
_NUMBERS = {
    "actions": {
        "id": "<i8",
        "round": "<i4",
        "served": "<i4",
        "calibration": "|b1",
        "log_safe": "<f8",
        "log_optimized": "<f8",
        "log_prob": "<f8",
    },
    "observations": {"action": "<i8", "number": "<i8", "loss": "<f8", "reward": "<f8"},
}
_CONTENT = {"context": chain.CONTENT, "candidates": chain.CONTENT, "action": chain.CONTENT}


def follow_from_checkpoints(
    connection: sql.Connection, lane: Lane, place: Place
) -> Iterator[Chunk]:
    """What was written to a lane after `place`, in chunks, from checkpoints as far as there are.

    The columns of a chunk are those that a checkpoint has.
    """
    if lane.last_action - (place.action or 0) >= MIN_ROWS:
        digests = _read_digests(connection, lane.lane)
        while place.entry + 1 in digests:
            chunk = _read(connection, lane.lane, place.entry + 1, digests[place.entry + 1])
            place = chunk.place
            yield chunk
    yield from follow_lane(connection, lane.lane, place)


def make_checkpoints(connection: sql.Connection) -> list[dict[str, Any]]:
    """Checkpoints of rows that have none yet, where there are enough of them."""
    made = []
    for number, lane in read_lanes(connection).items():
        if number < 0:
            continue
        place = _last_place(connection, number)
        if _size(place, lane.last_action, lane.last_observation) < MIN_ROWS:
            continue
        for chunk in follow_lane(connection, number, place):
            after = chunk.place
            if _size(place, after.action or 0, after.observation or 0) < MIN_ROWS:
                break
            made.append(_encoded(number, place, chunk))
            place = after
    return made


def write_checkpoints(writer: Writer, made: list[dict[str, Any]]) -> None:
    """Store checkpoints, unless another process was faster."""
    table = schema.checkpoints
    for each in made:
        known = sql.select(sql.func.max(table.c.last)).where(table.c.lane == each["lane"])
        if (writer.connection.scalar(known) or 0) < each["first"]:
            writer.checkpoint(each)


def _size(place: Place, last_action: int, last_observation: int) -> int:
    return last_action - (place.action or 0) + last_observation - (place.observation or 0)


def _last_place(connection: sql.Connection, lane: int) -> Place:
    table = schema.checkpoints
    query = sql.select(table.c.place).where(table.c.lane == lane).order_by(table.c.first.desc())
    found = connection.scalar(query.limit(1))
    return Place() if found is None else _place(found)


def _place(text: str) -> Place:
    entry, head, action, observation = json.loads(text)
    return Place(entry, bytes.fromhex(head), action, observation)


def _encoded(lane: int, before: Place, chunk: Chunk) -> dict[str, Any]:
    after = chunk.place
    header: dict[str, Any] = {"rows": {}, "content": "", "empty": []}
    parts = []
    for kind, columns in (("actions", chunk.actions), ("observations", chunk.observations)):
        if columns is not None:
            header["rows"][kind] = len(columns["number" if kind == "observations" else "id"])
            parts += [np.asarray(columns[name]).astype(t) for name, t in _NUMBERS[kind].items()]
    if chunk.actions is not None:
        header["content"] = chain.digest_rows(_content(chunk.actions), _CONTENT).hex()
        header["empty"] = [name for name in _CONTENT if _is_empty(chunk.actions[name])]
    place = [after.entry, after.head.hex(), after.action, after.observation]
    return {
        "lane": lane,
        "first": before.entry + 1,
        "last": after.entry,
        "place": json.dumps(place),
        "content": json.dumps(header).encode() + b"\n" + b"".join(part.tobytes() for part in parts),
    }


def _content(columns: Columns) -> Columns:
    return {name: columns[name] for name in _CONTENT}


def _is_empty(values: Any) -> bool:
    return all(each is None for each in values)


def _read_digests(connection: sql.Connection, lane: int) -> dict[int, bytes]:
    """The digests of a lane's checkpoints by their first entry, from the checked hash chain."""
    found, place = {}, Place()
    while entries := read_entries(connection, SCORES_LANE, place.entry, ENTRIES_PER_QUERY):
        place = Place(entries[-1]["number"], check_links(SCORES_LANE, place, entries))
        for entry in entries:
            if entry["kind"] == CHECKPOINT and entry["note"] == str(lane):
                found[entry["first"]] = entry["digest"]
    return found


def _read(connection: sql.Connection, lane: int, first: int, digest: bytes) -> Chunk:
    table = schema.checkpoints
    same = (table.c.lane == lane, table.c.first == first)
    row = connection.execute(sql.select(table).where(*same)).one_or_none()
    if row is None or chain.digest_checkpoint(row.place, bytes(row.content)) != digest:
        raise TamperedError(
            f"the checkpoint of lane {lane} from entry {first} on was changed or removed after it "
            f"was written"
        )
    text, _, raw = bytes(row.content).partition(b"\n")
    header, start = json.loads(text), 0
    found: dict[str, Columns] = {}
    for kind, count in header["rows"].items():
        found[kind] = columns = {}
        for name, dtype in _NUMBERS[kind].items():
            columns[name] = np.frombuffer(raw, dtype, count, start)  # type: ignore[assignment]
            start += count * np.dtype(dtype).itemsize
    if "actions" in found:
        _add_content(connection, lane, found["actions"], header)
    return Chunk(found.get("actions"), found.get("observations"), _place(row.place))


def _add_content(
    connection: sql.Connection, lane: int, columns: Columns, header: dict[str, Any]
) -> None:
    """Read the contexts and actions of the rows of a checkpoint, and check them."""
    table, count = schema.actions, len(columns["id"])
    names = [name for name in _CONTENT if name not in header["empty"]]
    start = first_id(lane)
    query = (
        sql.select(*(table.c[name] for name in names))
        .where(table.c.id >= int(columns["id"][0]), table.c.id <= int(columns["id"][-1]))
        .order_by(table.c.id)
    )
    rows = fetch_rows(connection, query)
    if len(rows) == count:
        values = dict(zip(names, zip(*rows, strict=True), strict=True))
        columns |= {name: values.get(name, (None,) * count) for name in _CONTENT}
        if chain.digest_rows(_content(columns), _CONTENT).hex() == header["content"]:
            return
    first, last = int(columns["id"][0]) - start, int(columns["id"][-1]) - start
    raise TamperedError(
        f"actions {first} to {last} of lane {lane} are not as they were written: some were "
        f"changed, removed or added"
    )
