"""Losses of keys: each belongs to the row of the key and the system that answered it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from tether._core.validate import choice
from tether.rounds.checked_observations import MAX_IDS_SHOWN
from tether.rounds.limits import Limits
from tether.rounds.recording import Recorder
from tether.rounds.releases.key_rows import (
    NEW,
    OLD,
    Key,
    KeyRow,
    key_content,
    listed_keys,
    read_key_rows,
)
from tether.rounds.store import schema
from tether.rounds.store.database import Store
from tether.rounds.store.queries import IDS_PER_QUERY, is_among


def observe_keys(
    store: Store,
    recorder: Recorder,
    limits: Limits,
    keys: Key | Iterable[Key],
    losses: ArrayLike | Mapping[str, ArrayLike],
    system: str | None,
    keep_first: bool,
) -> int:
    """Store losses of keys; how many of them were new."""
    if system is not None:
        choice("system", system, (OLD, NEW))
    contents = [key_content(key) for key in listed_keys(keys)]
    if not contents:
        return 0
    if len(set(contents)) < len(contents):
        raise ValueError("keys must have each key once: one row is one key and system")
    with store.reading() as connection:
        known = read_key_rows(connection, contents)
    rows = [_row(known.get(key, {}), system) for key in contents]
    unknown = [key.decode() for key, row in zip(contents, rows, strict=True) if row is None]
    if unknown:
        by = "" if system is None else f" to the {system} system"
        more = ", …" if len(unknown) > MAX_IDS_SHOWN else ""
        raise ValueError(
            f"keys {', '.join(map(repr, unknown[:MAX_IDS_SHOWN]))}{more} were never assigned{by} "
            f"({len(unknown)} of {len(contents)}): nothing of this call was stored"
        )
    ids = np.array([row.id for row in rows if row is not None])
    if keep_first:
        return _observe_first(store, recorder, limits, ids, losses)
    return recorder.observe(ids, _named(losses, limits), None, limits)


def _row(known: Mapping[str, KeyRow], system: str | None) -> KeyRow | None:
    """The row of a system, or the latest."""
    if system is not None:
        return known.get(system)
    return max(known.values(), key=lambda row: (row.step, row.id), default=None)


def _observe_first(store: Store, recorder: Recorder, limits: Limits, ids: Any, losses: Any) -> int:
    """Store the losses of rows that have none yet."""
    count = 0
    for name, values in _named(losses, limits).items():
        which = list(limits).index(name) if name in limits else -1
        with store.reading() as connection:
            stored = _observed(connection, ids.tolist(), which)
        fresh = np.array([each not in stored for each in ids.tolist()])
        given = np.atleast_1d(np.asarray(values))
        if len(given) == len(ids) and fresh.any():
            given = given[fresh]
        if fresh.any():
            count += recorder.observe(ids[fresh], {name: given}, None, limits)
    return count


def _named(losses: Any, limits: Limits) -> dict[str, Any]:
    if isinstance(losses, Mapping):
        return {name: np.atleast_1d(np.asarray(values)) for name, values in losses.items()}
    if len(limits) > 1:
        raise TypeError(f"losses must be a mapping with some of the names {list(limits)}")
    return {next(iter(limits)): np.atleast_1d(np.asarray(losses))}


def _observed(connection: sql.Connection, ids: list[int], which: int) -> set[int]:
    table, found = schema.observations, set()
    for begin in range(0, len(ids), IDS_PER_QUERY):
        among = is_among(connection, table.c.action, ids[begin : begin + IDS_PER_QUERY])
        query = sql.select(table.c.action).where(table.c.which == which, among)
        found |= set(connection.scalars(query))
    return found
