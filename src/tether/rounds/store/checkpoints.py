"""Checkpoints: many rows in one place, so that a new process need not read each of them.

A checkpoint covers consecutive entries of a lane. It was made from rows that were checked, and has
what a calibration needs of them. Where contexts or actions are long, or a single call was very
large, it only says so, and the rows are read. The hash chain of scores covers it. A lane has none
before its first `MIN_ROWS` rows.
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
from tether.rounds.store.followed_lane import (
    ENTRIES_PER_QUERY,
    Chunk,
    Place,
    check_links,
    follow_lane,
    place_after,
    read_chunk,
    read_entries,
)
from tether.rounds.store.lanes import SCORES_LANE, Lane, first_id, read_lanes
from tether.rounds.store.writer import ACTIONS, CHECKPOINT, OBSERVATIONS, Writer

MIN_ROWS, MAX_ROWS = 10_000, 100_000
"""How many rows and losses together there are in a checkpoint, at least and at most."""
SHORT_BYTES = 64
"""Contexts, candidates and actions of at most so many bytes each on average are copied."""
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
    OBSERVATIONS: {
        "action": "<i8",
        "which": "<i4",
        "number": "<i8",
        "loss": "<f8",
        "reward": "<f8",
    },
}
_COPIED_CONTENT = ("context", "candidates", "action")


def follow_from_checkpoints(
    connection: sql.Connection, lane: Lane, place: Place, made: list[dict[str, Any]]
) -> Iterator[Chunk]:
    """What was written to a lane after `place`, in chunks, from checkpoints as far as there are.

    A chunk may have no more columns than a checkpoint has. From rows that have no checkpoint yet,
    but are enough for one, it is made right away and added to `made`.
    """
    is_far = _size(place, _end(lane)) >= MIN_ROWS
    if is_far:
        digests = _read_digests(connection, lane.lane)
        while place.entry + 1 in digests:
            chunk = _read(connection, lane.lane, place, digests[place.entry + 1])
            place = chunk.place
            yield chunk
    for chunk in follow_lane(connection, lane.lane, place):
        if is_far and _size(place, chunk.place) >= MIN_ROWS:
            made.append(_encoded(lane.lane, place, chunk))
        place = chunk.place
        yield chunk


def make_checkpoints(
    connection: sql.Connection, made: Sequence[dict[str, Any]] = ()
) -> Iterator[dict[str, Any]]:
    """Checkpoints of rows that have none yet, where there are enough of them.

    Those that were `made` before are used where they follow on the last one.
    """
    known = {(each["lane"], each["first"]): each for each in made}
    for number, lane in read_lanes(connection).items():
        if number < 0:
            continue
        place = _last_place(connection, number)
        while (number, place.entry + 1) in known:
            found = known[number, place.entry + 1]
            place = _place(found["place"])
            yield found
        if _size(place, _end(lane)) < MIN_ROWS:
            continue
        for chunk in follow_lane(connection, number, place):
            if _size(place, chunk.place) < MIN_ROWS:
                break
            yield _encoded(number, place, chunk)
            place = chunk.place


def write_checkpoints(writer: Writer, made: list[dict[str, Any]]) -> None:
    """Store checkpoints, unless another process was faster."""
    table = schema.checkpoints
    for each in made:
        known = sql.select(sql.func.max(table.c.last)).where(table.c.lane == each["lane"])
        if (writer.connection.scalar(known) or 0) < each["first"]:
            writer.checkpoint(each)


def restore_checkpoints(connection: sql.Connection) -> None:
    """Make the checkpoints again that the hash chain names, from the rows, in a store without."""
    for row in _made_again(connection):
        connection.execute(schema.checkpoints.insert().values(**row))


def find_wrong_checkpoints(connection: sql.Connection) -> Iterator[str]:
    """Checkpoints that do not have what the rows have, although the hash chain covers both."""
    table = schema.checkpoints
    for row in _made_again(connection):
        same = (table.c.lane == row["lane"], table.c.first == row["first"])
        kept = connection.execute(sql.select(table).where(*same)).one()
        if (kept.place, bytes(kept.content)) != (row["place"], row["content"]):
            yield (
                f"the checkpoint of lane {row['lane']} from entry {row['first']} on does not have "
                f"what the rows have"
            )


def _made_again(connection: sql.Connection) -> Iterator[dict[str, Any]]:
    """The checkpoints that the hash chain names, from the rows."""
    entry = schema.entries
    named = sql.select(entry.c.note, entry.c.first, entry.c.last)
    named = named.where(entry.c.lane == SCORES_LANE, entry.c.kind == CHECKPOINT)
    for note, first, last in connection.execute(named.order_by(entry.c.number)).fetchall():
        lane = int(note)
        before, after = (place_after(connection, lane, each) for each in (first - 1, last))
        if _is_copied(connection, lane, before, after):
            yield _encoded(lane, before, read_chunk(connection, lane, before, last))
        else:
            yield _row(lane, before, after, {})


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


def _is_copied(connection: sql.Connection, lane: int, before: Place, after: Place) -> bool:
    """Whether a checkpoint has the rows between two places, or only says where they end."""
    table, start = schema.actions, first_id(lane)
    within = (table.c.id > start + (before.action or 0), table.c.id <= start + (after.action or 0))
    sizes = [sql.func.sum(sql.func.length(table.c[name])) for name in _COPIED_CONTENT]
    largest = max(each or 0 for each in connection.execute(sql.select(*sizes).where(*within)).one())
    rows = (after.action or 0) - (before.action or 0)
    return _size(before, after) <= MAX_ROWS and largest <= SHORT_BYTES * rows


def _encoded(lane: int, before: Place, chunk: Chunk) -> dict[str, Any]:
    """A chunk as a row of the database: a line of JSON, and then one array after the other.

    Integers that are all the same, or consecutive, are in the JSON alone.
    """
    header: dict[str, Any] = {"rows": {}, "content": {}, "short": {}}
    arrays: list[NDArray[Any]] = []

    def add(name: str, array: NDArray[Any]) -> None:
        short = _shortened(array)
        if short is None:
            arrays.append(array)
        else:
            header["short"][name] = short

    for kind, columns in ((ACTIONS, chunk.actions), (OBSERVATIONS, chunk.observations)):
        if columns is not None:
            header["rows"][kind] = len(next(iter(columns.values())))
            for name, dtype in _NUMBERS[kind].items():
                add(f"{kind} {name}", np.asarray(columns[name]).astype(dtype))
    for name in _COPIED_CONTENT if chunk.actions is not None else ():
        lengths, content = chain.join_content(chunk.actions[name])  # type: ignore[index]
        header["content"][name] = len(content)
        add(f"lengths {name}", lengths)
        arrays.append(np.frombuffer(content, np.uint8))
        if len(content) > SHORT_BYTES * len(lengths):
            return _row(lane, before, chunk.place, {})
    if _size(before, chunk.place) > MAX_ROWS:
        return _row(lane, before, chunk.place, {})
    return _row(lane, before, chunk.place, header, arrays)


def _shortened(array: NDArray[Any]) -> list[int] | None:
    """The first of integers and the step from each to the next, where it is always 0 or 1."""
    if array.dtype.kind != "i" or not len(array):
        return None
    step = int(array[1] - array[0]) if len(array) > 1 else 0
    if step not in (0, 1) or not (np.diff(array) == step).all():
        return None
    return [int(array[0]), step]


def _lengthened(first: int, step: int, dtype: str, count: int) -> NDArray[Any]:
    """The inverse of `_shortened`."""
    return np.arange(first, first + count, dtype=dtype) if step else np.full(count, first, dtype)


def _row(
    lane: int,
    before: Place,
    after: Place,
    header: dict[str, Any],
    arrays: Sequence[NDArray[Any]] = (),
) -> dict[str, Any]:
    place = [after.entry, after.head.hex(), after.action, after.observation]
    raw = b"".join(array.tobytes() for array in arrays)
    return {
        "lane": lane,
        "first": before.entry + 1,
        "last": after.entry,
        "place": json.dumps(place),
        "content": json.dumps(header).encode() + b"\n" + raw,
    }


def _read_digests(connection: sql.Connection, lane: int) -> dict[int, bytes]:
    """The digests of a lane's checkpoints by their first entry, from the checked hash chain."""
    found, place = {}, Place()
    while entries := read_entries(connection, SCORES_LANE, place.entry, ENTRIES_PER_QUERY):
        place = Place(entries[-1]["number"], check_links(SCORES_LANE, place, entries))
        for entry in entries:
            if entry["kind"] == CHECKPOINT and entry["note"] == str(lane):
                found[entry["first"]] = entry["digest"]
    return found


def _read(connection: sql.Connection, lane: int, place: Place, digest: bytes) -> Chunk:
    table, first = schema.checkpoints, place.entry + 1
    same = (table.c.lane == lane, table.c.first == first)
    row = connection.execute(sql.select(table).where(*same)).one_or_none()
    if row is None or chain.digest_checkpoint(row.place, bytes(row.content)) != digest:
        raise TamperedError(
            f"the checkpoint of lane {lane} from entry {first} on was changed or removed after it "
            f"was written"
        )
    content = bytes(row.content)
    start = content.index(b"\n") + 1
    header, after = json.loads(content[:start]), _place(row.place)
    if not header:
        return read_chunk(connection, lane, place, after.entry)

    def array(dtype: str, count: int, name: str = "") -> NDArray[Any]:
        nonlocal start
        if name in header["short"]:
            first, step = header["short"][name]
            return _lengthened(first, step, dtype, count)
        found = np.frombuffer(content, dtype, count, start)
        start += found.nbytes
        return found

    found: dict[str, dict[str, Any]] = {
        kind: {name: array(dtype, count, f"{kind} {name}") for name, dtype in columns.items()}
        for kind, columns in _NUMBERS.items()
        if (count := header["rows"].get(kind)) is not None
    }
    for name, size in header["content"].items():
        lengths = array("<i8", header["rows"][ACTIONS], f"lengths {name}")
        found[ACTIONS][name] = _split(lengths, array("|u1", size).tobytes())
    return Chunk(found.get(ACTIONS), found.get(OBSERVATIONS), after)


def _split(lengths: NDArray[Any], content: bytes) -> Sequence[bytes | None] | NDArray[np.void]:
    """The inverse of `chain.join_content`."""
    if (lengths < 0).all():
        return [None] * len(lengths)
    if (lengths == lengths[0]).all() and lengths[0]:
        return np.frombuffer(content, f"V{lengths[0]}")
    ends = np.cumsum(lengths.clip(0))
    bounds = zip((ends - lengths.clip(0)).tolist(), ends.tolist(), strict=True)
    split: list[bytes | None] = [content[first:last] for first, last in bounds]
    for missing in np.flatnonzero(lengths < 0).tolist():
        split[missing] = None
    return split
