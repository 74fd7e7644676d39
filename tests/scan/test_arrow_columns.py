"""Columns of Arrow as arrays."""

import pyarrow as pa
import pytest

from tether.scan.arrow_columns import to_array


def test_a_text_that_numpy_would_shorten_is_refused():
    assert to_array("item", pa.array(["a", "b\0c"])).tolist() == ["a", "b\0c"]
    with pytest.raises(ValueError, match="item has a string that ends in a NUL"):
        to_array("item", pa.array(["a", "a\0"]))
