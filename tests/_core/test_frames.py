"""Columns of frames of every kind."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tether._core import frames

COLUMNS = {"loss": [0.0, 1.0], "score_0": [1, 2], "score_1": [3, 4]}
MAKERS = {
    "dict": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "structured": lambda columns: pd.DataFrame(columns).to_records(index=False),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_columns_by_name(maker):
    frame = MAKERS[maker](COLUMNS)
    assert frames.names(frame) == list(COLUMNS)
    assert frames.column(frame, "loss", "loss").tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match=r"loss: there is no column 'cost'; the frame has \['loss"):
        frames.column(frame, "loss", "cost")


@pytest.mark.parametrize("maker", MAKERS)
def test_optional_columns_and_tables(maker):
    frame = MAKERS[maker](COLUMNS)
    assert frames.optional(frame, "loss", None).tolist() == [0.0, 1.0]
    assert frames.optional(frame, "context", "loss").tolist() == [0.0, 1.0]
    assert frames.optional(frame, "context", None) is None
    assert frames.table(frame, "score", None).tolist() == [[1, 3], [2, 4]]
    assert frames.table(frame, "score", ["score_1"]).tolist() == [[3], [4]]
    assert frames.table(frame, "other", None) is None


class LazyFrame:
    columns = ("loss",)

    def __getitem__(self, name):
        raise TypeError("not subscriptable yet")


def test_frames_that_cannot_be_read():
    twice = pd.DataFrame(np.zeros((2, 2)), columns=["loss", "loss"])
    with pytest.raises(ValueError, match="loss: there are 2 columns 'loss'"):
        frames.column(twice, "loss", "loss")
    with pytest.raises(TypeError, match="frame must have named columns, got list"):
        frames.names([1, 2])
    with pytest.raises(TypeError, match="LazyFrame cannot be read by column"):
        frames.column(LazyFrame(), "loss", "loss")
