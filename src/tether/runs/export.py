"""Copies of runs: a file for a backup or an auditor, or a run that goes on in another database.

A copy has the events and the stored bytes that they name as they are; the index is made again.
Whoever reads it can check everything: each event has the BLAKE2b hash of the one before, its own
number, time, kind and mark, and its body.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from tether._core import files
from tether.runs.body import unpack
from tether.runs.databases import Database
from tether.runs.errors import StoreError, TamperedError
from tether.runs.event_log import (
    EVENTS_AT_ONCE,
    blob_digest,
    blobs,
    claims,
    events,
    follow,
    mark_claim,
    read_events,
    tables,
)
from tether.runs.keys import claims_of
from tether.runs.state import State


def import_run(source: str | Path, store: str | Path) -> None:
    """Copy a run, such as a file that `Run.export` wrote, into an empty store.

    One with an event that is not as it was written is refused (a `TamperedError`).

    Parameters
    ----------
    source : str or pathlib.Path
        A file or the URL of a database that holds a run.
    store : str or pathlib.Path
        A path (SQLite) or the URL of a database that holds no run yet.
    """
    database = Database(source, create=False, deadline=60.0)
    with database.reading() as connection:
        if not sql.inspect(connection).has_table(events.name):
            raise StoreError(f"{database.name} does not hold a tether run")
        copy_run(connection, store)


def copy_run(source: sql.Connection, store: str | Path) -> None:
    """Copy all events and blobs into an empty store; they are checked on the way."""
    state, index = State(), dict[bytes, bytes]()

    def checked() -> Iterator[tuple[sql.Table, dict[str, Any]]]:
        for event in follow(read_events(source)):
            if event.seq == 1:
                state.fold(event)
            index.update(mark_claim(event.mark))
            if event.kind == "rows":
                index.update(claims_of(state, *unpack(event.body), index))
            yield events, event._asdict()
        if state.settings is None:
            raise StoreError("there is no run to copy: the store does not hold any event")
        for digest, content in source.execute(sql.select(blobs)):
            if digest != blob_digest(content):
                raise TamperedError(f"the stored bytes {digest} are not as they were written")
            yield blobs, {"digest": digest, "content": content}
        for name, value in index.items():
            yield claims, {"name": name, "value": value}

    with nullcontext(store) if "://" in str(store) else files.replacing(store) as place:
        database = Database(place, create=True, deadline=60.0)
        with database.errors("write"), database.engine.connect() as connection:
            database.begin(connection)
            tables.create_all(connection)
            if connection.execute(sql.select(events.c.seq).limit(1)).first() is not None:
                raise StoreError(f"{database.name} already holds a run")
            for table, rows in groupby(checked(), lambda each: each[0]):
                while part := [row for _, row in islice(rows, EVENTS_AT_ONCE)]:
                    connection.execute(table.insert(), part)
            database.commit(connection)
