"""Digests: short names for content, from which it cannot be changed unnoticed.

All are SHA-256, written as "sha256:" and 64 hexadecimal digits. Plain values are digested as
canonical JSON. Arrays are digested by value: the width of a number, the capacity of a string array,
the order in memory and the sign of a zero do not matter; the order of the rows does.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGEST_PREFIX = "sha256:"
"""How every digest begins."""


def bytes_digest(content: bytes) -> str:
    """The digest of bytes.

    >>> bytes_digest(b"")[:15]
    'sha256:e3b0c442'
    """
    return DIGEST_PREFIX + hashlib.sha256(content).hexdigest()


def canonical_json(value: Any) -> bytes:
    r"""Plain values as the one JSON text that stands for them: sorted keys, no spaces, ASCII.

    >>> canonical_json({"b": 1.0, "a": [True, None, "é"]})
    b'{"a":[true,null,"\\u00e9"],"b":1.0}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def content_digest(value: Any) -> str:
    """The digest of plain values."""
    return bytes_digest(canonical_json(value))


def array_digest(array: NDArray[Any]) -> str:
    """The digest of an array of numbers or strings, by value."""
    kind, raw = _canonical(array)
    hashed = hashlib.sha256(f"{kind}{list(array.shape)}".encode())
    hashed.update(raw)
    return DIGEST_PREFIX + hashed.hexdigest()


def _canonical(array: NDArray[Any]) -> tuple[str, Any]:
    """A letter for the kind of values, and their bytes in C order, little-endian."""
    kind = array.dtype.kind
    if kind == "f":
        return "f", np.ascontiguousarray(_one_zero(array.astype("<f8", copy=False))).data
    if kind in "biu":
        signed = kind != "u" or array.itemsize < 8 or not array.size or array.max() < 1 << 63
        wide = np.ascontiguousarray(array.astype("<i8" if signed else "<u8", copy=False))
        return "i" if signed else "u", wide.data
    if kind in "US":
        return kind, _characters(array)
    raise TypeError(f"only numbers and strings have a digest, got dtype {array.dtype}")


def _one_zero(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same numbers with −0.0 as 0.0; a copy only where there may be one."""
    return values + 0.0 if np.signbit(values[values == 0]).any() else values


def _characters(array: NDArray[Any]) -> bytes:
    """Characters of all strings in columns, as many as the longest has, after their number."""
    unit = np.dtype("<u4") if array.dtype.kind == "U" else np.dtype("u1")
    plain = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    if not plain.itemsize or not plain.size:
        return b"0:"
    table = plain.reshape(-1).view(unit).reshape(plain.size, -1)
    used = np.flatnonzero(table.any(axis=0))
    width = int(used[-1]) + 1 if len(used) else 0
    return b"%d:" % width + table[:, :width].tobytes()
