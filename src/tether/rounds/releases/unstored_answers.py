"""Answers of the old system without the store: kept in a local file, and listed in the store later.

They are rows of no system, and nothing is estimated from them (docs/explanation/release.md). They
are listed so that whoever asks can be told which keys were answered, when, and that no other answer
was lost.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import sqlalchemy as sql

from tether.rounds.errors import SpoolInUseError, StoreError
from tether.rounds.outage import MAX_SPOOLS
from tether.rounds.releases.key_rows import key_content
from tether.rounds.spool import Spool, SpoolRecord
from tether.rounds.store import schema
from tether.rounds.store.database import Store
from tether.rounds.store.queries import RUN_SETTING, last_number, now, read_all, read_settings

SPOOL_RECORDS_PER_LIST = 16
"""How many records of a spool become one list in the store."""


class UnstoredAnswers:
    """The spool of one process for one release, in a folder; for several threads.

    What other processes have left there when they were killed is delivered too.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self.delivered = self._reached = 0
        self._spool = self._open(folder)
        self._appended = self.delivered + sum(each.count for each in self._spool.read())

    @property
    def waiting(self) -> int:
        """How many answers wait."""
        return self._appended - self.delivered

    def append(self, keys: Sequence[bytes]) -> None:
        """Keep answers; they are on the disk when this returns."""
        texts = [key.decode() for key in keys]
        self._spool.append({"keys": json.dumps(texts), "answered": now()}, len(keys))
        self._appended += len(keys)  # one thread appends, and one delivers

    def deliver(self) -> int:
        """List in the store what waits; how many answers that were."""
        delivered = 0
        while batch := _next_records(self._spool, self._reached):
            _deliver(self._store, self._spool, batch)
            self._reached = batch[-1].number
            count = sum(each.count for each in batch)
            delivered += count
            self.delivered += count
        return delivered

    def close(self) -> None:
        """Release the file."""
        self._spool.close()

    def _open(self, folder: Path) -> Spool:
        """The first spool of the release that no process has; those after it are emptied."""
        with self._store.reading() as connection:
            run = read_settings(connection)[RUN_SETTING]
        own: Spool | None = None
        for number in range(1, MAX_SPOOLS + 1):
            path = folder / f"tether-{run[:12]}-{number}.spool"
            is_there = path.exists() and path.stat().st_size > 0
            if own is not None and not is_there:
                continue
            try:
                spool = Spool(path, lane=None if is_there else secrets.randbits(62))
            except SpoolInUseError:
                continue
            except StoreError as error:
                if not isinstance(error.__cause__, OSError):
                    raise
                raise StoreError(
                    f"{error}: answers without the store need a folder on a local disk that can be "
                    f"written (spool.folder)"
                ) from error
            if own is None:
                own = spool
                continue
            with spool, suppress(StoreError):
                reached = 0
                while batch := _next_records(spool, reached):
                    _deliver(self._store, spool, batch)
                    reached = batch[-1].number
                    self.delivered += sum(each.count for each in batch)
        if own is None:
            raise StoreError(f"{MAX_SPOOLS} processes have a spool in {folder}: name another one")
        return own


def _next_records(spool: Spool, after: int) -> list[SpoolRecord]:
    """Some of the records that wait and come after one."""
    waiting = (each for each in spool.read() if each.number > after)
    return list(islice(waiting, SPOOL_RECORDS_PER_LIST))


def _deliver(store: Store, spool: Spool, batch: Sequence[SpoolRecord]) -> None:
    """List answers that wait.

    If this process is killed before the spool knows of it, or the disk is full, the store still
    does: the store, which answers, must not seem to be unavailable.
    """
    table = schema.unstored
    query = sql.select(sql.func.max(table.c.record)).where(table.c.spool == spool.lane)
    with store.writing(exclusive=True) as writer:
        done = writer.connection.scalar(query) or 0
        new = [each for each in batch if each.number > done]
        if new:
            number = 1 + last_number(writer.connection, table.c.number)
            writer.record(table, _row(number, spool.lane, new))
    with suppress(StoreError):
        spool.mark_delivered(batch[-1].number)


def _row(number: int, spool: int, records: Sequence[SpoolRecord]) -> dict[str, object]:
    keys = [key for each in records for key in json.loads(each.columns["keys"])]
    return {
        "number": number,
        "spool": spool,
        "record": records[-1].number,
        "count": len(keys),
        "keys": json.dumps(keys),
        "first": records[0].columns["answered"],
        "last": records[-1].columns["answered"],
    }


def count_unstored(connection: sql.Connection) -> int:
    """How many answers were given without the store, as far as it knows."""
    return int(connection.scalar(sql.select(sql.func.sum(schema.unstored.c.count))) or 0)


def read_unstored(connection: sql.Connection) -> list[str]:
    """The keys of all answers that were given without the store, in the order of the lists."""
    rows = read_all(connection, schema.unstored)
    return [key for row in rows for key in json.loads(row["keys"])]


def find_wrong_unstored(connection: sql.Connection) -> list[str]:
    """Lists of answers that are none, or that list the same answers again."""
    found: list[str] = []
    reached: dict[int, int] = {}
    for row in read_all(connection, schema.unstored):
        name = f"list {row['number']} of answers without the store"
        try:
            keys = json.loads(row["keys"])
            are_keys = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
            if not are_keys or not keys or len(keys) != row["count"]:
                found.append(f"{name} does not have the {row['count']} keys that it says")
            else:
                for key in keys:
                    key_content(key)
        except ValueError as error:
            found.append(f"{name} cannot be read: {error}")
        if row["record"] <= reached.get(row["spool"], 0):
            found.append(f"{name} has answers that were listed before")
        reached[row["spool"]] = row["record"]
    return found
