"""The index of a run: the rows of a key. It follows from the events, which verification checks.

A key of a release has an entry with its last rows of the old and the new system, and an idempotency
key of a controller one with the row of its action.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether._core.arrays import Integers
from tether.runs.body import Columns
from tether.runs.keys import hashed_positions, is_below, unpack_keys
from tether.runs.settings import RELEASE
from tether.runs.state import NEW, OLD, State

Index = Mapping[bytes, bytes]
_NOBODY = b"\xff" * 16
"""The entry of a key that neither system has answered: -1 twice."""


def key_name(key: bytes) -> bytes:
    """The name of a key of a release."""
    return b"k" + key


def action_name(key: str) -> bytes:
    """The name of an idempotency key."""
    return b"a" + key.encode("utf-8", "surrogateescape")


def claims_of(
    state: State, header: dict[str, Any], columns: Columns, index: Index
) -> dict[bytes, bytes]:
    """The entries that an event with rows makes, given those before it."""
    first = int(header["first"])
    if state.given.kind != RELEASE:
        keys = enumerate(columns.get("key", ()), first)
        return {action_name(str(key)): row.to_bytes(8, "little") for row, key in keys}
    listed = unpack_keys(columns)
    last = last_rows(index, listed)
    last[np.arange(len(listed)), columns["arm"]] = first + np.arange(len(listed))
    content = last.astype("<i8").tobytes()
    return {key_name(key): content[16 * k : 16 * k + 16] for k, key in enumerate(listed)}


def last_rows(index: Index, keys: list[bytes]) -> Integers:
    """For each key of a release its last row with each system, -1 where it has none."""
    content = b"".join([index.get(key_name(key), _NOBODY) for key in keys])
    return np.frombuffer(content, "<i8").reshape(-1, 2).astype(np.int64)


def standing_rows(state: State, rows: Integers) -> Integers:
    """The same rows, or the ones before them that were not withdrawn."""
    rows = rows.copy()
    while True:
        stored = np.flatnonzero(rows >= 0)
        gone = stored[state.rows["withdrawn"][rows[stored]]]
        if not len(gone):
            return rows
        rows[gone] = state.rows["before"][rows[gone]]


def assigned(state: State, keys: list[bytes], index: Index, *, outage: bool) -> Columns:
    """The columns of the rows of keys in the present step: who answers, and what was known."""
    salt = bytes.fromhex(state.given.salt)
    places = hashed_positions(keys, salt if state.given.sticky else salt + b"%d" % len(state.units))
    arms = is_below(places, 0.0 if outage else state.share).astype(np.int32)
    last = last_rows(index, keys)
    return {
        "arm": arms,
        "position": places,
        "before": standing_rows(state, last[np.arange(len(keys)), arms]),
        "known": ((last[:, OLD] >= 0) + 2 * (last[:, NEW] >= 0)).astype(np.uint8),
        "calibration": np.full(len(keys), not outage and not state.is_stopped),
    }
