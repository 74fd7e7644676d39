"""Contexts of every sort are counted, indexed and cut alike; tables are matched by name."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from tether._core.contexts import as_contexts, by_action, labels, length, part, parts, take

SORTS = {
    "array": np.arange(7.0),
    "table": np.arange(14.0).reshape(7, 2),
    "list": list("abcdefg"),
    "pandas": pd.DataFrame({"a": range(7)}, index=range(10, 17)),
    "polars": pl.DataFrame({"a": range(7)}),
    "number": 7,
}


@pytest.mark.parametrize("sort", list(SORTS))
def test_every_sort(sort):
    contexts = as_contexts(SORTS[sort])
    assert length(contexts) == 7
    assert length(take(contexts, np.array([6, 0, 0]))) == 3
    assert length(part(contexts, 5, 100)) == 2
    assert [length(each) for each in parts(contexts, 3)] == [3, 3, 1]


def test_none_is_the_number_of_actions():
    assert as_contexts(None, [1, 2, 3]) == 3
    with pytest.raises(ValueError, match="actions has 3 rows but contexts has 4"):
        as_contexts(4, [1, 2, 3])


UNLIKE = {
    **SORTS,
    "words": np.array(["a", "b", "longer", "", "aa", "é", "'"]),
    "objects": np.array([None, 1, 1.5, "x", (1, 2), np.arange(2000), -np.arange(2000)], object),
    "series": pd.Series(list("abcdefg")),
    "mixed": pd.DataFrame({"a": list("abcdefg"), "b": range(7), "c": np.linspace(0, 1, 7)}),
    "sparse": scipy.sparse.csr_array(np.eye(7)),
    "large": 2**60 + np.arange(7),
}
del UNLIKE["number"]


@pytest.mark.parametrize("sort", list(UNLIKE))
def test_labels_are_of_the_content_alone(sort):
    contexts = as_contexts(UNLIKE[sort])
    every = labels(contexts)
    assert len(np.unique(every)) == 7
    order = np.array([6, 0, 0, 3])
    assert np.array_equal(labels(take(contexts, order)), every[order])


def test_labels_of_numbers_do_not_depend_on_how_they_are_stored():
    values = np.array([[0.5, -0.0], [np.nan, 2.0]])
    for same in (values.astype(np.float32), np.asfortranarray(values), values + 0.0, values[:, :]):
        assert np.array_equal(labels(same), labels(values))
    assert np.array_equal(labels(np.arange(3, dtype=np.int8)), labels(np.arange(3)))
    narrow, wide = np.array(["a", "b"]), np.array(["a", "b", "much longer"])
    assert np.array_equal(labels(narrow), labels(wide)[:2])
    assert labels(np.zeros((2, 0))).tolist() == labels(np.zeros((2, 0)))[::-1].tolist()
    cells = np.array([1.5, "x"], object), np.array([np.float64(1.5), np.str_("x")], object)
    assert np.array_equal(labels(cells[0]), labels(cells[1]))
    assert labels(np.array([1.5])).tolist() == [2360676658618195140]  # in every process


def test_labels_of_sparse_rows_are_of_their_entries():
    table = np.array([[0, 1, 0, 2], [0, 2, 0, 1], [1, 0, 2, 0], [0, 0, 0, 0], [0, 1, 0, 2]])
    whole = scipy.sparse.csr_array(table)
    every = labels(whole)
    assert len(np.unique(every)) == 4
    assert every[0] == every[4]
    for same in (whole.astype(np.int8), whole.tocsc(), scipy.sparse.csr_matrix(table)):
        assert np.array_equal(labels(same), every)
    assert not np.isin(labels(whole.astype(float))[:3], every).any()
    # Zeros that are stored, and entries out of order or in two parts, are the same rows.
    parts_of = scipy.sparse.csr_array(([2, 1, 0], [3, 1, 2], [0, 3]), shape=(1, 4))
    twice = scipy.sparse.coo_array(([1, 1, 1], ([0, 0, 0], [3, 1, 3])), shape=(1, 4))
    assert labels(parts_of)[0] == labels(twice)[0] == every[0]
    with pytest.raises(TypeError, match="sparse contexts must hold real numbers, got complex128"):
        labels(whole.astype(complex))


VALUES = {"email": [0.1, 0.2], "none": [0.3, 0.3], "push": [0.6, 0.5]}
WANTED = np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2]])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_columns_of_a_frame_are_put_in_the_order_of_the_actions(frame):
    found = by_action("table", frame(VALUES), np.array(["push", "none", "email"]))
    np.testing.assert_array_equal(found, WANTED)


@pytest.mark.parametrize(
    ("table", "reversed_names"),
    [
        (np.array([[0.1, 0.9]]), None),
        (pd.DataFrame([[0.1, 0.9]], columns=[0, 1]), [1, 0]),
        (pd.DataFrame([[0.1, 0.9]]), ["1", "0"]),
        (pd.Series([0.1, 0.9]), [1, 0]),
        (pl.DataFrame([[0.1], [0.9]]), ["column_1", "column_0"]),
    ],
)
def test_columns_that_merely_count_are_left_in_order_unless_they_are_other_actions(
    table, reversed_names
):
    assert by_action("table", table, np.array(["push", "none"])) is table
    if reversed_names is not None:
        with pytest.raises(ValueError, match="name each column by its action"):
            by_action("table", table, np.array(reversed_names))


@pytest.mark.parametrize("make", [
    lambda values: pd.DataFrame({"a": pd.array(values, dtype="Int64")}),
    lambda values: pd.Series(values, dtype="Int64"),
    lambda values: pd.DataFrame({"a": pd.Categorical(values)}),
    lambda values: pl.DataFrame({"a": values}),
    pl.Series,
])  # fmt: skip
def test_missing_integers_change_no_other_label(make):
    values = [2**60 + 1, 2**60 + 2, 5]
    whole = labels(make([*values, None]))
    assert whole[:3].tolist() == labels(make(values)).tolist() == labels(np.array(values)).tolist()
    assert len(set(whole)) == 4
