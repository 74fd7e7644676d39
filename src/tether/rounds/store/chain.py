"""The hash chain: a digest of everything that is written, in which each entry holds the last one.

Every lane has a chain. An entry has the digest of the rows that one call wrote, and its head is the
digest of that, of what the entry says about them, and of the head before. An entry of the control
lane (a round, an alarm, …) also holds the heads of all other lanes. So no row can be changed,
removed, inserted or moved without changing every later head.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from tether._core import records

DIGEST_BYTES = 32

INTEGERS, NUMBERS, CONTENT = "integers", "numbers", "content"
"""How a column is digested: as 64-bit integers, as floats (NULL is NaN), or as bytes or text."""
ACTION_COLUMNS = {
    "id": INTEGERS,
    "round": INTEGERS,
    "served": INTEGERS,
    "calibration": INTEGERS,
    "context": CONTENT,
    "candidates": CONTENT,
    "action": CONTENT,
    "log_safe": NUMBERS,
    "log_optimized": NUMBERS,
    "log_prob": NUMBERS,
    "context_score": NUMBERS,
}
OBSERVATION_COLUMNS = {
    "action": INTEGERS,
    "number": INTEGERS,
    "loss": NUMBERS,
    "reward": NUMBERS,
    "reason": CONTENT,
}
LINKED_FIELDS = (
    "lane",
    "number",
    "kind",
    "first",
    "last",
    "round",
    "served",
    "calibration",
    "key",
    "note",
    "heads",
)
"""What a head covers of its entry, apart from the digest."""


def digest_rows(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> bytes:
    """The digest of rows of actions or observations, given as columns."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for name, kind in kinds.items():
        values = columns[name]
        state.update(f"{name} {len(values)}\n".encode())
        if kind == CONTENT:
            _add_content(state, values)
        else:
            dtype = "<i8" if kind == INTEGERS else "<f8"
            array = np.asarray(values, dtype=dtype)  # None becomes NaN
            state.update(np.ascontiguousarray(array + 0))  # databases do not keep the sign of -0.0
    return state.digest()


def _add_content(state: Any, values: Sequence[Any]) -> None:
    content = [each.encode() if isinstance(each, str) else each for each in values]
    sizes = [-1 if each is None else len(each) for each in content]
    state.update(np.array(sizes, dtype="<i8"))
    state.update(b"".join(each for each in content if each is not None))


def digest_record(row: Mapping[str, Any]) -> bytes:
    """The digest of one row of a small table; bytes count as hexadecimal text."""
    plain = {name: _plain(value) for name, value in row.items()}
    text = json.dumps(records.encode(plain), sort_keys=True)
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value + 0.0
    return value.hex() if isinstance(value, (bytes, memoryview)) else value


def digest_bytes(content: bytes) -> bytes:
    """The digest of a policy."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def digest_piece(numbers: str, values: bytes) -> bytes:
    """The digest of a piece of scores: the rounds of its policies, as JSON, and its values."""
    state = blake2b(f"{numbers}\n".encode(), digest_size=DIGEST_BYTES)
    state.update(values)
    return state.digest()


def link(previous: bytes, entry: Mapping[str, Any]) -> bytes:
    """The head of an entry, given the head before it in its lane."""
    text = json.dumps([entry.get(name) for name in LINKED_FIELDS])
    state = blake2b(previous, digest_size=DIGEST_BYTES)
    state.update(entry["digest"])
    state.update(text.encode())
    return state.digest()
