"""Contexts of the rows of a frame: stated as a column, as several, or as None."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether._core.contexts import labels
from tether._core.frames import UNSTATED, ContextsNotStatedError, read_contexts

COLUMNS = {
    "loss": [0.0, 1.0, 0.0, 1.0],
    "age": [40, 61, 40, 40],
    "weight": [70.5, 81.0, 70.5, 70.5],
    "sex": ["f", "m", "f", "m"],
}
MAKERS = {
    "dict": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "structured": lambda columns: pd.DataFrame(columns).to_records(index=False),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_the_three_statements(maker):
    frame = MAKERS[maker](COLUMNS)
    assert read_contexts(frame, None, ["loss"]) is None
    assert read_contexts(frame, "age", ["loss"]).tolist() == COLUMNS["age"]
    assert read_contexts(frame, "sex", ["loss"]).tolist() == COLUMNS["sex"]
    for several in (["age", "sex"], ("weight", "sex")):
        found = read_contexts(frame, several, ["loss"])
        assert found[0] == found[2]
        assert len(set(found.tolist())) == 3
    floats = read_contexts(frame, "weight", ["loss"])  # labelled by content
    assert floats.dtype == np.int64
    assert len(set(floats.tolist())) == 2


@pytest.mark.parametrize("maker", MAKERS)
def test_labels_do_not_depend_on_the_kind_of_frame_and_match_those_of_policies(maker):
    found = read_contexts(MAKERS[maker](COLUMNS), ["age", "sex"], [])
    assert np.array_equal(found, labels(pd.DataFrame(COLUMNS)[["age", "sex"]]))


@pytest.mark.parametrize("maker", MAKERS)
def test_an_unstated_context_is_an_error_that_lists_the_columns(maker):
    frame = MAKERS[maker](COLUMNS)
    with pytest.raises(ContextsNotStatedError, match=r"contexts are \['age', 'weight', 'sex'\]"):
        read_contexts(frame, UNSTATED, ["loss"])
    with pytest.raises(ContextsNotStatedError, match="no column left that could be one"):
        read_contexts(frame, UNSTATED, list(COLUMNS))
    assert read_contexts(frame, UNSTATED, ["loss"], has_tables=True) is None
    assert repr(UNSTATED) == "<must be stated>"


def test_bad_statements():
    with pytest.raises(ValueError, match=r"context: there is no column 'bmi'"):
        read_contexts(COLUMNS, ["age", "bmi"], ["loss"])
    with pytest.raises(ValueError, match=r"context is empty"):
        read_contexts(COLUMNS, [], ["loss"])
    with pytest.raises(TypeError, match=r"context must name columns by strings, got 3"):
        read_contexts(COLUMNS, [3], ["loss"])
    with pytest.raises(ValueError, match=r"the column 'loss' holds losses"):
        read_contexts(COLUMNS, ["age", "loss"], ["loss"])


@given(
    st.lists(
        st.tuples(
            st.integers(-2, 2), st.floats(allow_nan=True, width=16), st.sampled_from(["", "a", "b"])
        ),
        min_size=1,
        max_size=30,
    )
)
def test_equal_feature_rows_and_only_these_share_a_label(rows):
    number, real, text = (list(column) for column in zip(*rows, strict=True))
    found = read_contexts(
        {"a": np.array(number), "b": np.array(real), "c": np.array(text)}, ["a", "b", "c"], []
    )

    def same(i, j):
        reals = real[i] == real[j] or (real[i] != real[i] and real[j] != real[j])
        return number[i] == number[j] and reals and text[i] == text[j]

    for i in range(len(rows)):
        for j in range(i):
            assert (found[i] == found[j]) == same(i, j)
