"""Tables whose columns carry the names of actions are matched by name."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tether._core.contexts import by_action, labels_of

VALUES = {"email": [0.1, 0.2], "none": [0.3, 0.3], "push": [0.6, 0.5]}
WANTED = np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2]])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_columns_of_a_frame_are_put_in_the_order_of_the_actions(frame):
    found = by_action("table", frame(VALUES), np.array(["push", "none", "email"]))
    np.testing.assert_array_equal(found, WANTED)


@pytest.mark.parametrize(
    "table",
    [
        [[0.1, 0.9]],
        np.array([[0.1, 0.9]]),
        pd.DataFrame([[0.1, 0.9]]),
        pl.DataFrame([[0.1], [0.9]]),
        pd.Series([0.1, 0.9]),
    ],
    ids=["list", "array", "pandas", "polars", "series"],
)
def test_a_table_without_names_is_left_as_it_is(table):
    assert labels_of(table) is None
    assert by_action("table", table, np.array(["push", "none"])) is table


@pytest.mark.parametrize(
    ("table", "actions"),
    [
        (pd.DataFrame([[0.1, 0.9]], columns=[0, 1]), [1, 0]),
        (pd.DataFrame([[0.1, 0.9]]), ["1", "0"]),
        (pd.Series([0.1, 0.9]), [1, 0]),
        (pl.DataFrame([[0.1], [0.9]]), ["column_1", "column_0"]),
    ],
)
def test_columns_that_count_and_are_the_actions_in_another_order_are_refused(table, actions):
    with pytest.raises(ValueError, match="name each column by its action"):
        by_action("table", table, np.array(actions))
