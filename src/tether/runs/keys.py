"""Which system answers a key: a salted hash against the share, sticky and monotone.

A key has a position: a 64-bit integer from BLAKE2b with the salt as its key. It depends on nothing
else, so it is uniform and independent of every loss. The new system answers the keys whose position
is below floor(share·2⁶⁴), an integer, so two machines can never disagree by rounding. While the
share grows, every key of the new system stays there; a smaller share takes back those that came
last. A share of 0 is nobody and a share of 1 everybody.

The index of a run follows from the events, which verification checks: a key of a release has an
entry with its last rows of the old and the new system, and an idempotency key of a controller one
with the row of its action.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core.arrays import Booleans, Integers
from tether.runs.body import Columns
from tether.runs.settings import RELEASE
from tether.runs.state import State

OLD, NEW = 0, 1
"""The arms: the safe policy or old system, and the optimized policy or new system."""

LONGEST_KEY = 1024
"""The most bytes of a key."""
ROUTER = b"router"
"""What makes the hashes of routing independent of those of assignment."""
Index = Mapping[bytes, bytes]
_NOBODY = b"\xff" * 16
"""The entry of a key that neither system has answered: -1 twice."""


def as_bytes(key: str | bytes | int) -> bytes:
    """A key as it is hashed and stored: text as UTF-8, an integer as its decimal digits."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return str(int(key)).encode()
    if isinstance(key, str):
        key = key.encode("utf-8", "surrogatepass")
    if not isinstance(key, bytes):
        raise TypeError(f"keys must be str, bytes or int, got {key!r}")
    if not 1 <= len(key) <= LONGEST_KEY:
        raise ValueError(f"keys must have 1 to {LONGEST_KEY} bytes, got {len(key)}: {key[:20]!r}")
    return key


def hashed_positions(
    keys: Iterable[bytes], salt: bytes, purpose: bytes = b""
) -> NDArray[np.uint64]:
    """The position of each key, from 0 to 2⁶⁴ − 1; those for different purposes are independent.

    >>> hashed_positions([b"ann", b"bob"], b"salt") >> np.uint64(48)
    array([38978, 14873], dtype=uint64)
    """
    digests = [blake2b(key, digest_size=8, key=salt, person=purpose).digest() for key in keys]
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def is_below(position: NDArray[np.uint64], share: ArrayLike) -> Booleans:
    """Whether the new system answers each position, for one share or one for each.

    >>> is_below(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 0.5)
    array([ True, False, False])
    """
    given = np.asarray(share, dtype=np.float64)
    limit = np.floor(np.ldexp(given, 64))  # exact, and at most 2⁶⁴, which does not fit in a uint64
    below = position < np.where(given < 1, limit, 0).astype(np.uint64)
    return np.asarray(below | (given >= 1))


def is_routed(keys: list[bytes], probabilities: ArrayLike, salt: bytes) -> Booleans:
    """Whether the new system of the routed pair answers each key."""
    given = np.asarray(probabilities, dtype=np.float64)
    if given.shape not in ((), (len(keys),)):
        raise ValueError(
            f"probabilities must be one number, or one for each of the {len(keys)} keys, got "
            f"the shape {given.shape}"
        )
    outside = given[~((given >= 0) & (given <= 1))]
    if outside.size:
        raise ValueError(f"probabilities must be from 0 to 1, got {outside[0]!s}")
    return is_below(hashed_positions(keys, salt, ROUTER), given)


# ---- the index ----------------------------------------------------------------------------------


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
    listed = columns["key"].tolist()
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
        gone = stored[state.rows["answers"][rows[stored]] == 0]
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
