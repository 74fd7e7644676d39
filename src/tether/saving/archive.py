"""One file for many members: a zip archive with one digest over all of them.

Members are stored without compression, in a fixed order and with a fixed date, so the same members
give the same bytes and are as large in memory. Nothing is ever extracted to the disk.
"""

from __future__ import annotations

import io
import json
import math
import warnings
import zipfile
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGEST = "digest.txt"
"""The member with the digest of all others."""
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date that every member has."""
ARRAY_KINDS = "biufcUSmM"
"""The kinds of dtype that are saved: truth values, numbers, text, bytes, times."""


def digest_of(members: dict[str, bytes]) -> str:
    """The digest of members with their names: BLAKE2b with 32 bytes, in hexadecimal digits."""
    sizes = json.dumps([[name, len(content)] for name, content in members.items()])
    digest = blake2b(sizes.encode(), digest_size=32)
    for content in members.values():
        digest.update(content)
    return digest.hexdigest()


def pack(members: dict[str, bytes]) -> bytes:
    """The bytes of a file with these members and their digest."""
    return stored_zip({DIGEST: digest_of(members).encode(), **members})


def unpack(data: bytes, max_bytes: int) -> dict[str, bytes]:
    """The members of a file, if their digest is the one that it has; sizes are checked first."""
    if len(data) > max_bytes:
        raise ValueError(f"the file has more than max_bytes = {max_bytes:,} bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            is_compressed = any(entry.compress_type for entry in entries)  # to any size
            if is_compressed or sum(entry.file_size for entry in entries) > len(data):
                raise ValueError("its members are compressed, or claim more bytes than it has")
            members = {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"the file is not a complete archive of tether: {error}") from error
    if members.pop(DIGEST, b"") != digest_of(members).encode():
        raise ValueError("the file is not a policy saved by tether, or it was changed since")
    return members


def stored_zip(members: dict[str, bytes]) -> bytes:
    """A zip archive without compression, its members in the order in which they are given."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, ZIP_EPOCH)
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def array_to_bytes(array: NDArray[Any]) -> bytes:
    """An array in the .npy format; its memory order is kept, so that sums round alike."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def array_from_bytes(name: str, content: bytes) -> NDArray[Any]:
    """A read-only array; shape and dtype must match the number of bytes before one is made."""
    buffer = io.BytesIO(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.lib.format.read_magic(buffer)  # 1.0: later versions have longer headers
            shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(buffer)
    except Exception as error:  # the header is evaluated as a literal, which fails in many ways
        raise ValueError(f"{name} is not an array in the .npy format: {error}") from error
    rest = len(content) - buffer.tell()
    right = all(type(size) is int and size >= 0 for size in shape) and not dtype.hasobject
    if not right or dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != rest:
        raise ValueError(f"{name} says shape {shape!s:.80} of {dtype!s:.80} in {rest:,} bytes")
    values = np.frombuffer(content, dtype, math.prod(shape), buffer.tell())
    array = values.reshape(shape, order="F" if fortran_order else "C").copy(order="K")
    array.flags.writeable = False
    return array
