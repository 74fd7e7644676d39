"""Acting while the store is unavailable: the safe policy acts, and its rows wait in a spool.

The rows have their ids at once, in a lane that belongs to the spool, and are delivered to the store
when it is back. Until the next try a call does not wait for the store.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core import validate
from tether._core.types import Integers
from tether.rounds.errors import StoreError, TamperedError
from tether.rounds.spool import Spool, SpoolRecord
from tether.rounds.store import queries, schema
from tether.rounds.store.database import Store
from tether.rounds.store.deadline import within
from tether.rounds.store.lanes import FIRST_SPOOL_LANE, Lane, first_id, read_lane, write_lane
from tether.rounds.store.writer import Writer

FALLBACKS = ("safe",)
"""What may act when the store does not answer."""
SPOOLED_KEY = " (spooled)"
"""Appended to the idempotency keys of rows that were spooled."""
NEVER_TAKEN = "the store did not answer in time, and the safe policy acted instead"
"""Why rows are withdrawn whose write was given up but succeeded."""
_NUMBERS = ("log_safe", "log_optimized", "log_prob", "context_score")


class Outage:
    """The spool of a controller, and whether the store is believed to be unavailable."""

    def __init__(self, store: Store, path: str | Path) -> None:
        self._store, self._guard = store, RLock()
        self._try_again_at = 0.0
        self.spool = _open_spool(store, Path(path))
        self.deliver()

    @property
    def is_believed(self) -> bool:
        """Whether a call was given up a moment ago: the next ones do not wait for the store."""
        return time.monotonic() < self._try_again_at

    @contextmanager
    def noticed(self, budget: Budget) -> Iterator[None]:
        """Within the time that a call has for the store; a failure is remembered for a while."""
        try:
            if self.is_believed:
                raise StoreError(f"{self._store.name} did not answer a moment ago")
            with budget.spent():
                yield
        except TamperedError:
            raise
        except StoreError:
            if not self.is_believed:
                self._try_again_at = time.monotonic() + self._store.deadline
            raise

    def append(self, columns: dict[str, Any], count: int) -> Integers:
        """Keep rows in the spool; their ids."""
        with self._guard:
            record = self.spool.append(columns, count)
        start = first_id(self.spool.lane) + record.first
        return np.arange(start, start + count)

    def find(self, key: str) -> SpoolRecord | None:
        """The rows that wait under an idempotency key; None if there are none."""
        with self._guard:
            waiting = self.spool.read() if self.spool.waiting else iter(())
            return next((each for each in waiting if each.columns["key"] == key), None)

    def deliver(self) -> None:
        """Put the rows that wait into the store; those that are there already stay as they are."""
        with self._guard:
            if not self.spool.waiting:
                return
            for record in self.spool.read():
                with self._store.writing(exclusive=True) as writer:
                    _deliver(writer, self.spool.lane, record)
                self.spool.mark_delivered(record.number)

    def close(self) -> None:
        """Release the spool."""
        self.spool.close()


class Budget:
    """The seconds that one call may wait for the store in all."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Within what is left of the budget."""
        if self._left <= 0:
            raise StoreError("the store did not answer within the deadline")
        begun = time.monotonic()
        try:
            with within(self._left):
                yield
        finally:
            self._left -= time.monotonic() - begun


def spool_columns(encoded: dict[str, list[Any]], **entry: Any) -> dict[str, Any]:
    """Rows as a spool keeps them: numbers as arrays, contents as bytes with their sizes."""
    columns: dict[str, Any] = dict(entry)
    for name, values in encoded.items():
        if name in _NUMBERS or name == "calibration":
            columns[name] = np.array(values, dtype=np.float64)
        else:
            sizes = [-1 if value is None else len(value) for value in values]
            columns[f"{name}_sizes"] = np.array(sizes, dtype=np.int64)
            columns[name] = b"".join(value for value in values if value is not None)
    return columns


def unspooled_columns(record: SpoolRecord) -> dict[str, list[Any]]:
    """The inverse of `spool_columns`, as the writer takes them."""
    columns: dict[str, list[Any]] = {}
    for name in ("context", "candidates", "action"):
        if name in record.columns:
            columns[name] = _split(record.columns[name], record.columns[f"{name}_sizes"])
    for name in _NUMBERS:
        values = record.columns[name].tolist()
        columns[name] = [None if value != value else value for value in values]
    columns["calibration"] = [bool(value) for value in record.columns["calibration"]]
    return columns


def _split(content: bytes, sizes: Any) -> list[bytes | None]:
    parts: list[bytes | None] = []
    begin = 0
    for size in sizes.tolist():
        parts.append(None if size < 0 else content[begin : begin + size])
        begin += max(size, 0)
    return parts


def _deliver(writer: Writer, lane: int, record: SpoolRecord) -> None:
    if read_lane(writer.connection, lane).last_action >= record.first:
        return  # it was delivered before, and not marked
    key = record.columns["key"]
    _withdraw_orphans(writer, key)
    writer.actions(
        unspooled_columns(record),
        number=record.columns["round"],
        served=0,
        key=f"{key}{SPOOLED_KEY}",
        failure=record.columns["failure"],
        lane=lane,
    )


def _withdraw_orphans(writer: Writer, key: str) -> None:
    """Withdraw what was stored under the same key although its write was given up."""
    table = schema.entries
    entry = writer.connection.execute(sql.select(table).where(table.c.key == key)).one_or_none()
    if entry is None:
        return
    start = first_id(entry.lane)
    ids = list(range(start + entry.first, start + entry.last + 1))
    known = set(queries.find_known(writer.connection, schema.observations.c.action, ids))
    new = [each for each in ids if each not in known]
    if new:
        nothing: list[Any] = [None] * len(new)
        reasons: list[Any] = [NEVER_TAKEN] * len(new)
        writer.observations({"action": new, "loss": nothing, "reward": nothing, "reason": reasons})


def _open_spool(store: Store, path: Path) -> Spool:
    """The spool at this path; a new one has a lane of its own."""
    if path.exists() and path.stat().st_size:
        return Spool(path)
    with store.writing(exclusive=True) as writer:
        lanes = schema.lanes.c.lane
        last = writer.connection.scalar(sql.select(sql.func.max(lanes)))
        lane = max(FIRST_SPOOL_LANE, 1 + int(last if last is not None else 0))
        write_lane(writer.connection, Lane(lane))
    return Spool(path, lane=lane)


def find_outage(store: Store, fallback: str | None, path: str | Path | None) -> Outage | None:
    """What a controller does in an outage, from its arguments; None if it raises an error."""
    if fallback is None:
        if path is not None:
            raise ValueError(f"spool is for fallback='safe', got {str(path)!r} without it")
        return None
    validate.choice("fallback", fallback, FALLBACKS)
    if path is None:
        if store.file is None:
            raise ValueError("spool must name a local file for fallback='safe', got None")
        path = f"{store.file}.spool"
    return Outage(store, path)
