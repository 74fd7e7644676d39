"""Checkpoints: the numbers of many rows in one place, so that a new process need not read each row.

A checkpoint covers consecutive entries of a lane. It was made from rows that were checked, and has
their numbers and losses. Contexts, candidates and actions are copied where they are short; of
others it has a digest. The hash chain of scores covers it. A run has none before its first
`MIN_ROWS` rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether.rounds.errors import TamperedError
from tether.rounds.store import chain, schema
from tether.rounds.store.fetched_columns import fetch_rows
from tether.rounds.store.followed_lane import (
    ENTRIES_PER_QUERY,
    Chunk,
    Place,
    check_links,
    follow_lane,
    read_entries,
)
from tether.rounds.store.lanes import SCORES_LANE, Lane, first_id, read_lanes
from tether.rounds.store.writer import ACTIONS, CHECKPOINT, OBSERVATIONS, Writer

MIN_ROWS = 10_000
"""How many rows and losses a lane has after its last checkpoint, at least, when one is made."""
SHORT_BYTES = 64
"""Contexts, candidates or actions of at most so many bytes on average are copied."""
_NUMBERS = {
    ACTIONS: {
        "id": "<i8",
        "round": "<i4",
        "served": "<i4",
        "calibration": "|b1",
        "log_safe": "<f8",
        "log_optimized": "<f8",
        "log_prob": "<f8",
    },
    OBSERVATIONS: {"action": "<i8", "number": "<i8", "loss": "<f8", "reward": "<f8"},
}
CONTENT_COLUMNS = ("context", "candidates", "action")


def follow_from_checkpoints(
    connection: sql.Connection, lane: Lane, place: Place, made: list[dict[str, Any]]
) -> Iterator[Chunk]:
    """What was written to a lane after `place`, in chunks, from checkpoints as far as there are.

    The columns of a chunk are those that a checkpoint has. From rows that have none yet, but are
    enough for one, it is made right away and added to `made`.
    """
    is_far = _size(place, _end(lane)) >= MIN_ROWS
    if is_far:
        digests = _read_digests(connection, lane.lane)
        while place.entry + 1 in digests:
            chunk = _read(connection, lane.lane, place.entry + 1, digests[place.entry + 1])
            place = chunk.place
            yield chunk
    for chunk in follow_lane(connection, lane.lane, place):
        if is_far and _size(place, chunk.place) >= MIN_ROWS:
            made.append(_encoded(lane.lane, place, chunk))
        place = chunk.place
        yield chunk


def make_checkpoints(
    connection: sql.Connection, made: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Checkpoints of rows that have none yet, where there are enough of them.

    Those that were `made` before are used where they follow on the last one.
    """
    found, known = [], {(each["lane"], each["first"]): each for each in made}
    for number, lane in read_lanes(connection).items():
        if number < 0:
            continue
        place = _last_place(connection, number)
        while (number, place.entry + 1) in known:
            found.append(known[number, place.entry + 1])
            place = _place(found[-1]["place"])
        if _size(place, _end(lane)) < MIN_ROWS:
            continue
        for chunk in follow_lane(connection, number, place):
            if _size(place, chunk.place) < MIN_ROWS:
                break
            found.append(_encoded(number, place, chunk))
            place = chunk.place
    return found


def write_checkpoints(writer: Writer, made: list[dict[str, Any]]) -> None:
    """Store checkpoints, unless another process was faster."""
    table = schema.checkpoints
    for each in made:
        known = sql.select(sql.func.max(table.c.last)).where(table.c.lane == each["lane"])
        if (writer.connection.scalar(known) or 0) < each["first"]:
            writer.checkpoint(each)


def _size(before: Place, after: Place) -> int:
    """How many rows and losses there are between two places."""
    actions = (after.action or 0) - (before.action or 0)
    return actions + (after.observation or 0) - (before.observation or 0)


def _end(lane: Lane) -> Place:
    return Place(lane.last_entry, lane.head, lane.last_action, lane.last_observation)


def _last_place(connection: sql.Connection, lane: int) -> Place:
    table = schema.checkpoints
    query = sql.select(table.c.place).where(table.c.lane == lane).order_by(table.c.first.desc())
    found = connection.scalar(query.limit(1))
    return Place() if found is None else _place(found)


def _place(text: str) -> Place:
    entry, head, action, observation = json.loads(text)
    return Place(entry, bytes.fromhex(head), action, observation)


def _encoded(lane: int, before: Place, chunk: Chunk) -> dict[str, Any]:
    """A chunk as a row of the database: a line of JSON, and then one array after the other."""
    after = chunk.place
    header: dict[str, Any] = {"rows": {}, "copied": {}, "digests": {}}
    parts = []
    for kind, columns in ((ACTIONS, chunk.actions), (OBSERVATIONS, chunk.observations)):
        if columns is not None:
            header["rows"][kind] = len(next(iter(columns.values())))
            parts += [np.asarray(columns[name]).astype(t) for name, t in _NUMBERS[kind].items()]
    for name in CONTENT_COLUMNS if chunk.actions is not None else ():
        lengths, content = chain.join_content(chunk.actions[name])  # type: ignore[index]
        if len(content) <= SHORT_BYTES * len(lengths):
            header["copied"][name] = len(content)
            parts += [lengths, np.frombuffer(content, np.uint8)]
        else:
            header["digests"][name] = _digest(lengths, content)
    place = [after.entry, after.head.hex(), after.action, after.observation]
    return {
        "lane": lane,
        "first": before.entry + 1,
        "last": after.entry,
        "place": json.dumps(place),
        "content": json.dumps(header).encode() + b"\n" + b"".join(part.tobytes() for part in parts),
    }


def _digest(lengths: NDArray[Any], content: bytes) -> str:
    return chain.digest_bytes(lengths.tobytes() + content).hex()


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

    def array(dtype: str, count: int) -> NDArray[Any]:
        nonlocal start
        start += count * np.dtype(dtype).itemsize
        return np.frombuffer(raw, dtype, count, start - count * np.dtype(dtype).itemsize)

    found: dict[str, Any] = {
        kind: {name: array(dtype, count) for name, dtype in _NUMBERS[kind].items()}
        for kind, count in header["rows"].items()
    }
    actions = found.get(ACTIONS)
    for name, size in header["copied"].items():
        lengths = array("<i8", len(actions["id"]))
        actions[name] = _split(lengths, array("|u1", size).tobytes())
    for name, expected in header["digests"].items():
        actions[name] = _read_content(connection, lane, name, actions["id"], expected)
    return Chunk(actions, found.get(OBSERVATIONS), _place(row.place))


def _split(lengths: NDArray[Any], content: bytes) -> list[bytes | None]:
    """The inverse of `chain.join_content`."""
    if (lengths < 0).all():
        return [None] * len(lengths)
    if (lengths == lengths[0]).all() and lengths[0]:
        return list(np.frombuffer(content, f"V{lengths[0]}").tolist())
    ends = np.cumsum(lengths.clip(0))
    bounds = zip((ends - lengths.clip(0)).tolist(), ends.tolist(), strict=True)
    split: list[bytes | None] = [content[first:last] for first, last in bounds]
    for missing in np.flatnonzero(lengths < 0).tolist():
        split[missing] = None
    return split


def _read_content(
    connection: sql.Connection, lane: int, name: str, ids: NDArray[Any], expected: str
) -> list[Any]:
    """The contexts, candidates or actions of the rows of a checkpoint, checked."""
    table, first, last = schema.actions, int(ids[0]), int(ids[-1])
    query = sql.select(table.c[name]).where(table.c.id >= first, table.c.id <= last)
    rows = [row[0] for row in fetch_rows(connection, query.order_by(table.c.id))]
    if len(rows) != len(ids) or _digest(*chain.join_content(rows)) != expected:
        start = first_id(lane)
        raise TamperedError(
            f"actions {first - start} to {last - start} of lane {lane} are not as they were "
            f"written: some were changed, removed or added"
        )
    return rows
