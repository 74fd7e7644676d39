"""One encoding for events, outbox, cache and export: a JSON header and raw columns behind it.

    4 bytes     length of the header, little-endian
    header      JSON, ASCII, keys sorted; its entry "columns" lists name, type and shape
    columns     raw little-endian values, one column after the other

Text is stored as UTF-8 with the end of each string as an integer column before it. Arrays of Python
objects are refused: what cannot be read back exactly is not written.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

TEXT = "text"
"""The type of a column of strings; every other type is numpy's own name for it."""
PLAIN_KINDS = "biufM"
"""numpy's kinds of values that have a fixed size and one meaning."""

Columns = dict[str, NDArray[Any]]


def pack(header: dict[str, Any], **columns: NDArray[Any]) -> bytes:
    """A header and columns as bytes; the same content gives the same bytes."""
    described, parts = [], []
    for name, column in columns.items():
        values = np.asarray(column)
        if values.dtype.kind in "UO":
            texts = _as_texts(name, values)
            ends = np.cumsum([len(text) for text in texts], dtype="<i8")
            described.append([name, TEXT, list(values.shape)])
            parts += [ends.tobytes(), b"".join(texts)]
        elif values.dtype.kind in PLAIN_KINDS:
            values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
            described.append([name, values.dtype.str, list(np.shape(column))])
            parts.append(values.tobytes())
        else:
            raise TypeError(
                f"column {name!r} has values of type {values.dtype}, which have no "
                f"exact encoding: use numbers or strings"
            )
    text = json.dumps({**header, "columns": described}, sort_keys=True, allow_nan=True)
    head = text.encode("ascii")
    return b"".join([len(head).to_bytes(4, "little"), head, *parts])


def unpack(body: bytes) -> tuple[dict[str, Any], Columns]:
    """Undo `pack`; anything else than what it wrote is a ValueError."""
    try:
        return _unpack(body)
    except (ValueError, KeyError, TypeError, IndexError, UnicodeError) as error:
        raise ValueError(
            f"these {len(body)} bytes are not the body of an event: {error}"
        ) from error


def read_header(body: bytes) -> dict[str, Any]:
    """The header alone."""
    size = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + size])
    header.pop("columns", None)
    return dict(header)


def _unpack(body: bytes) -> tuple[dict[str, Any], Columns]:
    size = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + size])
    at, columns = 4 + size, Columns()
    for name, kind, shape in header.pop("columns"):
        count = math.prod(shape)
        if kind == TEXT:
            ends = np.frombuffer(body, "<i8", count, at)
            at += ends.nbytes
            starts = np.concatenate(([0], ends[:-1])) if count else ends
            texts = [
                body[at + start : at + end].decode("utf-8")
                for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
            ]
            at += int(ends[-1]) if count else 0
            columns[name] = np.array(texts, dtype=str).reshape(shape)
        else:
            dtype = np.dtype(kind)
            if dtype.kind not in PLAIN_KINDS:
                raise ValueError(f"column {name!r} has the unknown type {kind!r}")
            values = np.frombuffer(body, dtype, count, at)
            at += values.nbytes
            columns[name] = values if len(shape) == 1 else values.reshape(shape)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes are left over")
    return dict(header), columns


def _as_texts(name: str, values: NDArray[Any]) -> list[bytes]:
    flat = values.ravel().tolist()
    for value in flat:
        if not isinstance(value, str):
            raise TypeError(f"column {name!r} must hold numbers or strings, got {value!r:.80}")
    return [value.encode("utf-8") for value in flat]
