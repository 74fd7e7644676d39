"""Columns of Arrow as arrays."""

import pyarrow as pa
import pytest

from tether.scan.arrow_columns import joined, to_array


def test_a_text_that_numpy_would_shorten_is_refused():
    assert to_array("item", pa.array(["a", "b\0c"])).tolist() == ["a", "b\0c"]
    with pytest.raises(ValueError, match="item has a string that ends in a NUL"):
        to_array("item", pa.array(["a", "a\0"]))


def test_batches_are_joined_in_order_and_keep_their_schema():
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])
    rows = [([1, 2], ["x", None]), ([], []), ([3], ["z"])]
    batches = [
        pa.record_batch([pa.array(a, pa.int32()), pa.array(b, pa.string())], schema)
        for a, b in rows
    ]
    (found,) = joined(iter(batches))
    assert found.schema == schema
    assert found.to_pydict() == {"a": [1, 2, 3], "b": ["x", None, "z"]}
    assert joined(batches[:2])[0].to_pydict() == batches[0].to_pydict()
    assert joined([batches[1]]) == []
