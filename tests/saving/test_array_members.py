"""Arrays keep every bit, and one that is not what it claims to be is never made."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tether.saving.array_members import (
    array_from_bytes,
    array_to_bytes,
    canonical_array,
    check_array,
    is_plain,
)

DTYPES = st.one_of(
    arrays.floating_dtypes(endianness="?"),
    arrays.integer_dtypes(endianness="?"),
    arrays.boolean_dtypes(),
    arrays.unicode_string_dtypes(min_len=1),
    arrays.datetime64_dtypes(),
)


@given(
    arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0)), st.booleans()
)
def test_arrays_keep_every_bit(array, fortran):
    array = np.asfortranarray(array) if fortran and array.ndim else array
    loaded = array_from_bytes("a", array_to_bytes(array))
    assert loaded.dtype == array.dtype
    assert loaded.shape == array.shape
    assert loaded.tobytes() == array.tobytes()
    assert loaded.flags.f_contiguous == array.flags.f_contiguous
    assert not loaded.flags.writeable
    assert array_to_bytes(loaded) == array_to_bytes(array)


def npy(shape="(3,)", descr="'<f8'", values=24, order="False"):
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    header += b" " * (118 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(values)


def test_the_forger_can_forge():
    assert array_from_bytes("a", npy()).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x09\x00" + bytes(100),
        npy()[:-1],
        npy() + b"x",
        npy(shape="(10**12,)"),
        npy(shape="(1000000000000,)"),
        npy(shape="(-3,)"),
        npy(shape="(-3, -1)"),
        npy(shape=f"({2**70},)"),
        npy(shape="(3.0,)"),
        npy(shape="(True, 3)"),
        npy(shape="3"),
        npy(shape="(" + "1," * 33 + "3)")[:200],
        npy(descr="'|O'"),
        npy(descr="[('a', '|O')]"),
        npy(descr="'|V8'"),
        npy(descr="'<U0'", values=0),
        npy(descr="'nonsense'"),
        npy(descr="'f8, f8'"),
        npy(order="2"),
        npy(shape="__import__('os')"),
        npy(shape="(" * 60),
    ],
)
def test_arrays_that_are_refused(content):
    with pytest.raises(ValueError, match=r"^a "):
        array_from_bytes("a", content)


def test_what_is_plain():
    assert is_plain(np.zeros(2))
    assert not is_plain(np.array([None]))
    assert not is_plain(np.zeros(2, "f8, i4"))


def test_padding_of_structured_arrays_is_cleared():
    dtype = np.dtype({"names": ["a"], "formats": ["u1"], "offsets": [0], "itemsize": 4})
    array = np.frombuffer(b"\1abc\2def", dtype)
    buffer = io.BytesIO()
    np.save(buffer, array)
    cleared = canonical_array("a", buffer.getvalue())
    assert cleared.endswith(b"\1\0\0\0\2\0\0\0")
    check_array("a", cleared)
    assert canonical_array("a", array_to_bytes(np.ones(2))) == array_to_bytes(np.ones(2))
