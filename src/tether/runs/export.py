"""Runs as folders of plain files, and as copies in other databases.

A folder has the file `events`, one record after the other: eight bytes with the length of the
record, little-endian, and a body of `tether.runs.body` with the event's fields in its header and
its own body as the column `body`. Stored bytes, such as policies, lie in `blobs`, each under its
digest. Whoever reads it can check everything: each event has the BLAKE2b hash of the one before,
its own number, time, kind and mark, and its body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core import files
from tether.runs.body import pack, unpack
from tether.runs.databases import Database
from tether.runs.errors import StoreError, TamperedError
from tether.runs.event_log import (
    EVENTS_AT_ONCE,
    Event,
    EventLog,
    blob_digest,
    blobs,
    claims,
    events,
    follow,
    mark_claim,
    read_events,
    tables,
)
from tether.runs.index import claims_of
from tether.runs.state import State


def export_log(log: EventLog, folder: str | Path) -> None:
    """Write every event, and the bytes that they name."""
    with files.replacing_folder(folder) as target:
        (target / "blobs").mkdir()
        with (target / "events").open("wb") as file:

            def write(connection: sql.Connection) -> None:
                for event in read_events(connection):
                    record = _record(event)
                    file.write(len(record).to_bytes(8, "little") + record)
                for digest, content in _read_blobs(connection):
                    (target / "blobs" / digest).write_bytes(content)

            log.read(write)


def backup_log(log: EventLog, file: str | Path) -> None:
    """Copy all events and blobs into a new SQLite file."""
    files.require_target(file)
    copy = str(Path(file))
    log.read(lambda connection: _write_copy(copy, read_events(connection), _read_blobs(connection)))


def import_run(folder: str | Path, store: str | Path) -> None:
    """Read a run that `Run.export` wrote into an empty store.

    Parameters
    ----------
    folder : str or pathlib.Path
        What `Run.export` wrote.
    store : str or pathlib.Path
        A path (SQLite) or the URL of a database that holds no run yet.

    Raises
    ------
    TamperedError
        If an event is not as it was written.
    StoreError
        If the store holds a run already, or cannot be written.
    """
    source = Path(folder)
    try:
        content = (source / "events").read_bytes()
        named = [(each.name, each.read_bytes()) for each in sorted((source / "blobs").iterdir())]
    except OSError as error:
        raise StoreError(f"{source} is not an exported run: {error}") from error
    _write_copy(store, _parse(content, str(source)), named)


def _read_blobs(connection: sql.Connection) -> Iterator[tuple[str, bytes]]:
    for digest, content in connection.execute(sql.select(blobs)):
        yield digest, bytes(content)


def _record(event: Event) -> bytes:
    header = {name: getattr(event, name) for name in ("seq", "kind", "at", "signature")}
    header |= {"mark": event.mark.hex(), "head": event.head.hex()}
    return pack(header, body=np.frombuffer(event.body, np.uint8))


def _parse(content: bytes, name: str) -> Iterator[Event]:
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at : at + 8], "little")
        try:
            header, columns = unpack(content[at + 8 : at + 8 + size])
            marks = bytes.fromhex(header["mark"]), columns["body"].tobytes()
            plain = header["seq"], header["kind"], header["at"]
            yield Event(*plain, *marks, bytes.fromhex(header["head"]), header["signature"])
        except (ValueError, KeyError, TypeError) as error:
            raise TamperedError(f"byte {at} of {name} is not an event: {error}") from error
        at += 8 + size


def _write_copy(
    store: str | Path, given: Iterable[Event], stored: Iterable[tuple[str, bytes]]
) -> None:
    """Write events into an empty store, and their index; the chain is checked on the way."""
    database, state, index = (
        Database(store, create=True, deadline=60.0),
        State(),
        dict[bytes, Any](),
    )

    def checked() -> Iterator[dict[str, Any]]:
        for event in follow(given):
            if event.seq == 1:
                state.fold(event)
            index.update(mark_claim(event.mark))
            if event.kind == "rows":
                index.update(claims_of(state, *unpack(event.body), index))
            yield event._asdict()

    def named() -> Iterator[dict[str, Any]]:
        for digest, content in stored:
            if digest != blob_digest(content):
                raise TamperedError(f"the bytes of {digest} are not as they were written")
            yield {"digest": digest, "content": content}

    with (
        database.errors("write"),
        database.engine.connect() as connection,
        database.writing(connection),
    ):
        tables.create_all(connection)
        if connection.execute(sql.select(events.c.seq).limit(1)).first() is not None:
            raise StoreError(f"{database.name} holds a run already")
        _insert(connection, events, checked())
        entries = ({"name": name, "value": value} for name, value in index.items())
        _insert(connection, claims, entries)
        _insert(connection, blobs, named())
    database.engine.dispose()


def _insert(connection: sql.Connection, table: sql.Table, rows: Iterator[dict[str, Any]]) -> None:
    while part := list(islice(rows, EVENTS_AT_ONCE)):
        connection.execute(table.insert(), part)
