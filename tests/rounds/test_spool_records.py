"""Records become bytes and records again; every changed byte is noticed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tether.rounds import spool_records as records

ARRAYS = npst.arrays(
    dtype=st.one_of(
        npst.floating_dtypes(),
        npst.integer_dtypes(),
        npst.unicode_string_dtypes(),
        npst.byte_string_dtypes(),
        npst.boolean_dtypes(),
        npst.datetime64_dtypes(),
    ),
    shape=npst.array_shapes(min_dims=0, min_side=0),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False).filter(
        lambda value: abs(value) != float("inf")
    ),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)  # fmt: skip


@given(st.dictionaries(st.text(), st.one_of(ARRAYS, st.binary(), JSON), max_size=4))
def test_columns_come_back_as_they_were(columns):
    back = records.decode_columns(records.encode_columns(columns))
    assert list(back) == list(columns)
    for name, value in columns.items():
        assert type(back[name]) is type(value)
        if isinstance(value, np.ndarray):
            assert back[name].dtype == value.dtype
            assert back[name].shape == value.shape
            assert back[name].tobytes() == value.tobytes()
            assert back[name].flags.writeable
        else:
            assert back[name] == value


def test_arrays_in_any_order_of_memory():
    array = np.arange(12.0).reshape(3, 4)
    columns = {"t": array.T, "s": array[:, ::2], "f": np.asfortranarray(array)}
    back = records.decode_columns(records.encode_columns(columns))
    for name, value in columns.items():
        np.testing.assert_array_equal(back[name], value)


@pytest.mark.parametrize(
    "value", [np.array([None]), np.zeros(2, dtype=[("a", "f8")]), object(), float("nan"), {1, 2}]
)
def test_what_cannot_be_kept_is_refused_by_name(value):
    with pytest.raises(TypeError, match="column 'context' must"):
        records.encode_columns({"context": value})


def whole(content=b"content"):
    return records.write_record(records.Head(records.ROWS, 3, 10, 4, len(content)), content)


@given(st.binary())
def test_a_record_knows_its_numbers_and_content(content):
    raw = whole(content)
    assert records.is_whole(raw)
    assert records.content_of(raw) == content
    head = records.read_head(raw[: records.HEAD_BYTES])
    assert head == records.Head(records.ROWS, 3, 10, 4, len(content))
    assert head.total_bytes == len(raw)


def test_every_changed_or_missing_byte_is_noticed():
    raw = whole()
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1
        assert not records.is_whole(bytes(changed))
        assert not records.is_whole(raw[:place])
    assert not records.is_whole(raw + b"x")
