"""Values in errors are short, whatever was passed."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tether._core.arrays import MAX_CHARACTERS, shown


def test_short_values_are_shown_as_they_are():
    assert [shown(value) for value in (1.5, "a", None, [1, 2], (1,))] == [
        *("1.5", "'a'", "None", "[1, 2]", "(1,)")
    ]


def test_arrays_and_frames_are_shown_by_their_shape():
    assert (
        shown(np.arange(300)) == "a ndarray of shape (300,) of dtype int64, starting with 0, 1, 2"
    )
    assert shown(pd.DataFrame({"a": [1], "b": [2]})) == "a DataFrame with the columns ['a', 'b']"
    assert shown(pl.DataFrame({"a": [1]})) == "a DataFrame with the columns ['a']"
    assert shown(pd.Series(["x"])).startswith("a Series of shape (1,)")


@pytest.mark.parametrize(
    "value", ["x" * 1000, list(range(1000)), {k: k for k in range(99)}, object(), ["x" * 999] * 9]
)
def test_no_value_takes_more_than_a_few_lines(value):
    assert len(shown(value)) <= 4 * MAX_CHARACTERS
    assert "\n" not in shown(value)
