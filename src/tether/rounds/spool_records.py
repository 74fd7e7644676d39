"""The records of a spool file as bytes: what was appended, how many rows, and a checksum.

A record is a head (marker, kind, numbers, lengths, checksum of the head), its content, and a
checksum of both. The content is a JSON description, followed by the bytes of the arrays.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

RECORD_MARKER = b"\x89tether\n"
"""Every record begins with these bytes."""
HEADER, ROWS, DELIVERED = 0, 1, 2
"""The kinds of records: the first of a file, appended rows, and rows that were delivered."""
_HEAD = struct.Struct("<8sB7xQQQQ")
_DIGEST_BYTES = 16
HEAD_BYTES = _HEAD.size + _DIGEST_BYTES
"""The length of a head with its checksum."""


@dataclass(frozen=True)
class Head:
    """What stands at the beginning of a record."""

    kind: int
    number: int
    first: int
    count: int
    content_bytes: int

    @property
    def total_bytes(self) -> int:
        """The length of the whole record."""
        return HEAD_BYTES + self.content_bytes + _DIGEST_BYTES


def write_record(head: Head, content: bytes = b"") -> bytes:
    """A whole record."""
    numbers = (head.kind, head.number, head.first, head.count, head.content_bytes)
    fields = _HEAD.pack(RECORD_MARKER, *numbers)
    raw = fields + _digest(fields) + content
    return raw + _digest(raw)


def read_head(raw: bytes) -> Head | None:
    """The head at the beginning of some bytes; None if there is no undamaged one."""
    fields = raw[: _HEAD.size]
    if len(raw) < HEAD_BYTES or raw[_HEAD.size : HEAD_BYTES] != _digest(fields):
        return None
    marker, *values = _HEAD.unpack(fields)
    return Head(*values) if marker == RECORD_MARKER else None


def is_whole(raw: bytes) -> bool:
    """Whether some bytes are one undamaged record."""
    head = read_head(raw)
    if head is None or len(raw) != head.total_bytes:
        return False
    return raw[-_DIGEST_BYTES:] == _digest(raw[:-_DIGEST_BYTES])


def content_of(raw: bytes) -> bytes:
    """The content of an undamaged record."""
    return raw[HEAD_BYTES:-_DIGEST_BYTES]


def encode_columns(columns: Mapping[str, Any]) -> bytes:
    """Columns as bytes: arrays without Python objects, bytes, and what JSON can hold."""
    described: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for name, value in columns.items():
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject or value.dtype.names is not None:
                raise TypeError(f"column {name!r} must not hold objects, got dtype {value.dtype}")
            entry: dict[str, Any] = {
                "dtype": value.dtype.str,
                "shape": value.shape,
                "bytes": value.nbytes,
            }
            parts.append(value.tobytes())
        elif isinstance(value, bytes):
            entry = {"bytes": len(value)}
            parts.append(value)
        else:
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"column {name!r} must be an array, bytes or a JSON value, got {value!r:.100}"
                ) from error
            entry = {"json": value}
        described.append({"name": str(name), **entry})
    text = json.dumps(described).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def decode_columns(content: bytes) -> dict[str, Any]:
    """The inverse of `encode_columns`."""
    (length,) = struct.unpack_from("<Q", content)
    place = 8 + length
    columns: dict[str, Any] = {}
    for entry in json.loads(content[8:place]):
        if "json" in entry:
            columns[entry["name"]] = entry["json"]
            continue
        part = content[place : place + entry["bytes"]]
        place += entry["bytes"]
        if "dtype" in entry:
            array = np.empty(entry["shape"], dtype=np.dtype(entry["dtype"]))
            columns[entry["name"]] = array
            if part:
                array[...] = np.frombuffer(part, dtype=array.dtype).reshape(array.shape)
        else:
            columns[entry["name"]] = part
    return columns


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=_DIGEST_BYTES).digest()
