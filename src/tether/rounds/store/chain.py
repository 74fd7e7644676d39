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
from numpy.typing import NDArray

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
    "which": INTEGERS,
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
    "attempt",
    "note",
    "heads",
)
"""What a head covers of its entry, apart from the digest."""


def digest_rows(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> bytes:
    """The digest of rows of actions or observations, given as columns."""
    return digest_groups(columns, kinds, [len(next(iter(columns.values())))])[0]


def digest_groups(
    columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str], sizes: Sequence[int]
) -> list[bytes]:
    """The digests of consecutive groups of rows, as many rows each as `sizes` says.

    A digest covers the names of the columns, then the numbers and the lengths of the content (−1
    for NULL) row after row, and then the content column after column.
    """
    contents = {name: join_content(columns[name]) for name in content_columns(kinds)}
    filled = [each for each in contents.values() if each[1]]
    ends = [np.cumsum(lengths.clip(0)).tolist() for lengths, _ in filled]
    views = [memoryview(content) for _, content in filled]
    lengths: dict[str, Any] = {name: each[0] for name, each in contents.items()}
    rows, width = memoryview(fixed_part({**columns, **lengths}, kinds)), 8 * len(kinds)
    start, digests, first = start_digest(kinds), [], 0
    for size in sizes:
        state, last = start.copy(), first + size
        state.update(rows[first * width : last * width])
        for view, end in zip(views, ends, strict=True):
            if size:
                state.update(view[end[first - 1] if first else 0 : end[last - 1]])
        digests.append(state.digest())
        first = last
    return digests


def start_digest(kinds: Mapping[str, str]) -> blake2b:
    """The beginning of a digest of rows, before their fixed part and their content."""
    return blake2b(" ".join(kinds).encode(), digest_size=DIGEST_BYTES)


def content_columns(kinds: Mapping[str, str]) -> list[str]:
    """The columns of byte strings or texts."""
    return [name for name, kind in kinds.items() if kind == CONTENT]


def fixed_part(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> bytes:
    """The numbers of rows row after row; of their content, the lengths, which are given."""
    fixed = []
    for name, kind in kinds.items():
        array = np.asarray(columns[name], dtype="<f8" if kind == NUMBERS else "<i8")
        fixed.append((array + 0).view("<i8"))  # None is NaN; databases do not keep a sign of 0.0
    return np.stack(fixed, axis=1).tobytes()


def join_content(values: Sequence[Any]) -> tuple[NDArray[np.int64], bytes]:
    """The lengths of byte strings or texts, −1 for None, and all of them joined."""
    present, kinds = values, set(map(type, values))
    if type(None) in kinds:
        present = [each for each in values if each is not None]
    if str in kinds:
        present = [each.encode() if isinstance(each, str) else each for each in present]
    lengths = np.fromiter(map(len, present), dtype="<i8", count=len(present))
    if type(None) in kinds:
        every = np.full(len(values), -1, dtype="<i8")
        every[[each is not None for each in values]] = lengths
        lengths = every
    return lengths, b"".join(present)


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


def digest_checkpoint(place: str, content: bytes) -> bytes:
    """The digest of a checkpoint: how far it reaches, as JSON, and its content."""
    return digest_piece(place, content)


def link(previous: bytes, entry: Mapping[str, Any]) -> bytes:
    """The head of an entry, given the head before it in its lane."""
    return link_fields(previous, entry["digest"], [entry.get(name) for name in LINKED_FIELDS])


def link_fields(previous: bytes, digest: bytes, fields: Sequence[Any]) -> bytes:
    """The head of an entry with this digest and the values of its `LINKED_FIELDS`."""
    text = json.dumps(fields)
    return blake2b(previous + digest + text.encode(), digest_size=DIGEST_BYTES).digest()
