"""Arrays as members of a file: the .npy format, without pickle and without surprises."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

ARRAY_KINDS = "biufcUSmM"
"""The kinds of dtype that are saved: truth values, numbers, text, bytes, times."""
MAX_DIMENSIONS = 32
"""How many dimensions a saved array may have."""


def is_plain(array: NDArray[Any]) -> bool:
    """Whether an array can be saved: it holds values and not objects."""
    return array.dtype.kind in ARRAY_KINDS and array.dtype.itemsize > 0


def array_to_bytes(array: NDArray[Any]) -> bytes:
    """An array in the .npy format; its memory order is kept, so that sums round alike."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def array_from_bytes(name: str, content: bytes) -> NDArray[Any]:
    """A read-only array; shape and dtype must match the number of bytes before one is made."""
    array = _read(name, content)
    if not is_plain(array):
        raise ValueError(
            f"{name} has dtype {str(array.dtype)[:80]}, expected truth values, numbers, text or "
            f"times"
        )
    array.flags.writeable = False
    return array


def canonical_array(name: str, content: bytes) -> bytes:
    """The same array; what lies between the fields of a structured one, which is chance, is 0."""
    array = _read(name, content)
    if array.dtype.names is None:
        return content
    cleared = np.zeros(array.shape, array.dtype)
    for field in array.dtype.names:
        cleared[field] = array[field]
    return array_to_bytes(cleared)


def check_array(name: str, content: bytes) -> None:
    """Refuse an array that claims to be larger than it is, or that holds objects."""
    _read(name, content)


def _read(name: str, content: bytes) -> NDArray[Any]:
    shape, fortran_order, dtype, start = _header(name, content)
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"{name} has dtype {str(dtype)[:80]}, which is not one of plain values")
    valid = all(type(size) is int and size >= 0 for size in shape) and len(shape) <= MAX_DIMENSIONS
    if not valid or math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError(
            f"{name} says shape {str(shape)[:80]} of {str(dtype)[:80]}, but has "
            f"{len(content) - start:,} bytes of values"
        )
    values = np.frombuffer(content, dtype, math.prod(shape), start)
    return values.reshape(shape, order="F" if fortran_order else "C").copy(order="K")


def _header(name: str, content: bytes) -> tuple[tuple[Any, ...], bool, np.dtype[Any], int]:
    buffer = io.BytesIO(content)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            version = np.lib.format.read_magic(buffer)
            shape, fortran_order, dtype = readers[version](buffer)
    except Exception as error:  # the header is evaluated as a literal, which fails in many ways
        raise ValueError(f"{name} is not an array in the .npy format: {error}") from error
    return shape, fortran_order, dtype, buffer.tell()
