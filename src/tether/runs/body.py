"""One encoding for events, outbox, cache and export: a JSON header and raw columns behind it.

    4 bytes     length of the header, little-endian
    header      JSON, ASCII, keys sorted; its entry "columns" lists name, type and shape
    columns     raw little-endian values, one column after the other

Strings, text as UTF-8 or bytes, have the end of each as an integer before them. Arrays of other
Python objects are refused: what cannot be read back exactly is not written.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

TEXT, BYTES = "text", "bytes"
"""The types of columns of strings; every other type is numpy's own name for it."""
PLAIN_KINDS = "biufM"
"""numpy's kinds of values that have a fixed size and one meaning."""

Columns = dict[str, NDArray[Any]]


def pack(header: dict[str, Any], **columns: NDArray[Any]) -> bytes:
    """A header and columns as bytes; the same content gives the same bytes."""
    described, parts = [], []
    for name, column in columns.items():
        values = np.asarray(column)
        if values.dtype.kind in "UO":
            kind, strings = _strings(name, values.ravel().tolist())
            ends = np.cumsum([len(each) for each in strings], dtype="<i8")
            parts += [ends.tobytes(), b"".join(strings)]
        elif values.dtype.kind in PLAIN_KINDS:
            values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
            kind = values.dtype.str
            parts.append(values.tobytes())
        else:
            raise TypeError(
                f"column {name!r} has values of type {values.dtype}, which have no "
                f"exact encoding: use numbers or strings"
            )
        described.append([name, kind, list(np.shape(column))])
    text = json.dumps({**header, "columns": described}, sort_keys=True, allow_nan=True)
    head = text.encode("ascii")
    return b"".join([len(head).to_bytes(4, "little"), head, *parts])


def unpack(body: bytes) -> tuple[dict[str, Any], Columns]:
    """Undo `pack`; anything else than what it wrote is a ValueError."""
    try:
        at = 4 + int.from_bytes(body[:4], "little")
        header, columns = dict(json.loads(body[4:at])), Columns()
        for name, kind, shape in header.pop("columns"):
            values, at = _read_column(body, at, kind, math.prod(shape))
            columns[name] = values.reshape(shape)
        if at != len(body):
            raise ValueError(f"{len(body) - at} bytes are left over")
        return header, columns
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"these {len(body)} bytes are not the body of an event: {error}"
        ) from error


def _read_column(body: bytes, at: int, kind: str, count: int) -> tuple[NDArray[Any], int]:
    """The values of a column that begins there, and where it ends."""
    if kind not in (TEXT, BYTES):
        dtype = np.dtype(kind)
        if dtype.kind not in PLAIN_KINDS:
            raise ValueError(f"{kind!r} is an unknown type")
        values = np.frombuffer(body, dtype, count, at)
        return values, at + values.nbytes
    ends = np.frombuffer(body, "<i8", count, at) + at + 8 * count
    places = [at + 8 * count, *ends.tolist()]
    strings: list[Any] = [body[start:end] for start, end in pairwise(places)]
    if kind == BYTES:
        return np.array(strings, dtype=object), places[-1]
    return np.array([each.decode("utf-8") for each in strings], dtype=str), places[-1]


def _strings(name: str, values: list[Any]) -> tuple[str, list[bytes]]:
    """Strings as bytes, and of which kind they are."""
    wanted = bytes if values and isinstance(values[0], bytes) else str
    for value in values:
        if not isinstance(value, wanted):
            raise TypeError(f"column {name!r} must hold numbers or strings, got {value!r:.80}")
    return (BYTES, values) if wanted is bytes else (TEXT, [each.encode() for each in values])
