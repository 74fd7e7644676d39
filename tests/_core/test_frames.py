"""Columns of frames of every kind, and contexts stated by their columns."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tether._core import frames
from tether._core.frames import UNSTATED, read_contexts

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
def test_contexts_are_stated_or_the_error_lists_the_columns(maker):
    frame = MAKERS[maker](COLUMNS)
    assert read_contexts(frame, None, ["loss"]) is None
    assert read_contexts(frame, "age", ["loss"]).tolist() == COLUMNS["age"]
    assert read_contexts(frame, "sex", ["loss"]).tolist() == COLUMNS["sex"]
    for several in (["age", "sex"], ("weight", "sex"), np.array(["age", "sex"])):
        found = read_contexts(frame, several, ["loss"])
        assert found[0] == found[2]
        assert len(set(found.tolist())) == 3
    floats = read_contexts(frame, "weight", ["loss"])  # labelled by content
    assert floats.dtype == np.int64
    assert len(set(floats.tolist())) == 2
    with pytest.raises(TypeError, match=r"contexts are \['age', 'weight', 'sex'\]"):
        read_contexts(frame, UNSTATED, ["loss"])
    assert read_contexts(frame, UNSTATED, ["loss"], has_tables=True) is None


@pytest.mark.parametrize("maker", MAKERS)
def test_columns_by_name(maker):
    frame = MAKERS[maker]({"loss": [0.0, 1.0], "score_0": [1, 2], "score_1": [3, 4]})
    assert frames.names(frame) == ["loss", "score_0", "score_1"]
    assert frames.column(frame, "loss", "loss").tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match=r"loss: there is no column 'cost'; the frame has \['loss"):
        frames.column(frame, "loss", "cost")
    assert frames.column({"x": np.ma.array([0, 1], mask=[1, 0])}, "x", "x").tolist() == [None, 1]
