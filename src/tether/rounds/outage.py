"""Acting while the store is unavailable: the safe policy acts, and its rows wait in a spool.

The rows have their ids at once, in a lane that belongs to the spool, and are delivered to the store
when it is back. Until the next try a call does not wait for the store.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core import files, validate
from tether._core.arrays import Integers
from tether.rounds.checked_observations import withdrawals
from tether.rounds.errors import SpoolInUseError, StoreError, TamperedError
from tether.rounds.policy_registry import SAFE
from tether.rounds.spool import Spool, SpoolRecord
from tether.rounds.store import queries, schema
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.deadline import within
from tether.rounds.store.lanes import FIRST_SPOOL_LANE, Lane, first_id, read_lane, write_lane
from tether.rounds.store.writer import Writer

FALLBACKS = ("safe",)
"""What may act when the store does not answer."""
SPOOLED_KEY = " ␟spooled"
"""Appended to an idempotency key that rows have which were given up: those of the spool count."""
RECORDS_PER_DELIVERY, RECORDS_PER_ACT = 256, 16
"""How many calls' rows are delivered in one transaction, also beside other actions."""
MAX_SPOOLS = 64
"""How many processes may have a spool beside the same store."""
NEVER_TAKEN = "the store did not answer in time, and the safe policy acted instead"
"""Why rows are withdrawn whose write was given up but succeeded."""
_NUMBERS = ("log_safe", "log_optimized", "log_prob", "context_score")


class Unavailability:
    """Whether the store is believed to be unavailable.

    Without a `memory` every call tries the store again: for callers that do not wait for it.
    """

    def __init__(self, store: Store, *, memory: bool = True) -> None:
        self._store, self._memory, self._try_again_at = store, memory, 0.0

    @property
    def is_believed(self) -> bool:
        """Whether a call was given up a moment ago: the next ones do not wait for the store."""
        return time.monotonic() < self._try_again_at

    @contextmanager
    def noticed(self, budget: Budget) -> Iterator[None]:
        """Within the time that a call has for the store; a failure is remembered for a while."""
        with self.remembered():
            if self.is_believed:
                raise StoreError(f"{self._store.name} did not answer a moment ago")
            with budget.spent():
                yield

    @contextmanager
    def remembered(self) -> Iterator[None]:
        """Remember a failure for a while, of something that may take longer than a call."""
        try:
            yield
        except TamperedError:
            raise
        except StoreError:
            if self._memory and not self.is_believed:
                self._try_again_at = time.monotonic() + self._store.deadline
            raise


class Outage(Unavailability):
    """The spool of a controller, and whether the store is believed to be unavailable.

    `run` is the identity of the run: rows of one run are not delivered to another.
    """

    def __init__(self, store: Store, run: str, spool: Spool) -> None:
        super().__init__(store)
        self._run, self.spool, self._guard = run, spool, RLock()
        waiting = list(spool.read())
        if any(each.columns["run"] != run for each in waiting):
            raise StoreError(f"the spool holds rows of another run than {store.name}")
        self._by_key = {each.columns["key"]: each for each in waiting if each.columns["key"]}
        self.deliver()

    def append(self, columns: dict[str, Any], count: int) -> Integers:
        """Keep rows in the spool; their ids."""
        with self._guard:
            record = self.spool.append({**columns, "run": self._run}, count)
            if columns["key"]:
                self._by_key[columns["key"]] = record
        start = first_id(self.spool.lane) + record.first
        return np.arange(start, start + count)

    def find(self, key: str) -> SpoolRecord | None:
        """The rows that wait under an idempotency key; None if there are none."""
        with self._guard:
            return self._by_key.get(key)

    def deliver(self, *, some: bool = False) -> None:
        """Put the rows that wait into the store, or only some of them, to come back soon."""
        count, patience = (
            (RECORDS_PER_ACT, 1) if some else (RECORDS_PER_DELIVERY, PATIENCE_FOR_ROWS)
        )
        while self.spool.waiting:
            with self._guard:
                batch = list(islice(self.spool.read(), count))
                if not batch:
                    return
                with self._store.writing(exclusive=True, patience=patience) as writer:
                    for record in batch:
                        _deliver(writer, self.spool.lane, record)
                self._try_again_at = 0.0  # it answers: a key that was delivered is found there
                self.spool.mark_delivered(batch[-1].number)
                for record in batch:
                    self._by_key.pop(record.columns["key"], None)
            if some:
                return

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
    reached = read_lane(writer.connection, lane)
    if reached.last_action >= record.first + record.count - 1:
        return  # it was delivered before, and not marked
    if reached.last_action != record.first - 1:
        raise StoreError(
            f"the spool begins at row {record.first} of lane {lane}, but the store has "
            f"{reached.last_action}: it is not the store that these rows were meant for, or was "
            f"replaced by an older copy"
        )
    orphan = _find(writer, schema.entries.c.attempt, record.columns["attempt"])
    if orphan is not None:
        _withdraw(writer, orphan)
    key = record.columns["key"] or None
    if key is not None and _find(writer, schema.entries.c.key, key) is not None:
        # what was given up has the key; or somebody else has used it meanwhile
        key = f"{key}{SPOOLED_KEY}" if orphan is not None else None
    writer.actions(
        unspooled_columns(record),
        number=record.columns["round"],
        served=SAFE,
        key=key,
        failure=record.columns["failure"],
        lane=lane,
    )


def _find(writer: Writer, column: sql.Column[Any], value: str) -> Any:
    """The entry with this key, or of this attempt; None if there is none."""
    query = sql.select(schema.entries).where(column == value)
    return writer.connection.execute(query).one_or_none()


def _withdraw(writer: Writer, entry: Any) -> None:
    """Withdraw rows that were stored although their write was given up: nobody has seen them."""
    start = first_id(entry.lane)
    ids = list(range(start + entry.first, start + entry.last + 1))
    known = set(queries.find_known(writer.connection, schema.observations.c.action, ids))
    new = [each for each in ids if each not in known]
    if new:
        writer.observations(withdrawals(new, NEVER_TAKEN).columns())


def _open_spool(store: Store, path: Path) -> Spool:
    """The spool at this path; a new one has a lane of its own."""
    if path.exists() and path.stat().st_size:
        spool = Spool(path)
        try:
            with store.reading() as connection:
                if not read_lane(connection, spool.lane).is_stored:
                    raise StoreError(f"the spool {path} belongs to another store: use another file")
        except BaseException:
            spool.close()
            raise
        return spool
    with store.writing(exclusive=True) as writer:
        lanes = schema.lanes.c.lane
        last = writer.connection.scalar(sql.select(sql.func.max(lanes)))
        lane = max(FIRST_SPOOL_LANE, 1 + int(last if last is not None else 0))
        write_lane(writer.connection, Lane(lane))
    return Spool(path, lane=lane)


def _open_free_spool(store: Store) -> Spool:
    """A spool beside the store that no other process uses."""
    for number in range(1, MAX_SPOOLS + 1):
        path = Path(f"{store.file}.spool" + (f".{number}" if number > 1 else ""))
        try:
            return _open_spool(store, path)
        except SpoolInUseError:
            continue
    raise StoreError(f"{MAX_SPOOLS} processes have a spool beside {store.name}: pass spool=")


def find_outage(store: Store, fallback: str | None, path: str | Path | None) -> Outage | None:
    """What a controller does in an outage, from its arguments; None if it raises an error."""
    if fallback is None:
        if path is not None:
            raise ValueError(f"spool is for fallback='safe', got {str(path)!r} without it")
        return None
    validate.choice("fallback", fallback, FALLBACKS)
    if path is None and store.file is None:
        raise ValueError("spool must name a local file for fallback='safe', got None")
    with store.reading() as connection:
        run = queries.read_settings(connection)[queries.RUN_SETTING]
    chosen = None if path is None else files.as_path("spool", path)
    spool = _open_free_spool(store) if chosen is None else _open_spool(store, chosen)
    try:
        return Outage(store, run, spool)
    except BaseException:
        spool.close()
        raise
