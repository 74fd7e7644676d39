"""Strings and numbers in every form that frames have, and columns whose rows belong together."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether._core.arrays import check_row_indexes, is_missing, plain_array, plain_column

PANDAS_KINDS = (object, "string[python]", "string[pyarrow]", pd.ArrowDtype(pa.string()), "category")
STRING_FORMS = {
    **{"list": list, "tuple": tuple, "numpy": np.array, "pandas": pd.Series, "polars": pl.Series},
    "numpy object": partial(np.array, dtype=object),
    "numpy StringDType": partial(np.array, dtype=np.dtypes.StringDType()),
    **{f"pandas {kind}": partial(pd.Series, dtype=kind) for kind in PANDAS_KINDS},
    "pandas Categorical": pd.Categorical,
    "pandas Index": pd.Index,
    "polars Categorical": partial(pl.Series, dtype=pl.Categorical),
    "polars Enum": lambda values: pl.Series(values, dtype=pl.Enum(sorted(set(values)))),
    "Arrow array": pa.array,
    "Arrow dictionary": lambda values: pa.array(values).dictionary_encode(),
    "Arrow chunks": lambda values: pa.chunked_array([values[:1], values[1:]]),
}
WORDS = ["wait", "act", "wait", "act", "act", "wait"]


@pytest.mark.parametrize("form", STRING_FORMS.values(), ids=STRING_FORMS.keys())
def test_strings_of_every_form_become_the_same_array_and_log(form):
    for array in (plain_array(form(WORDS)), plain_column("actions", form(WORDS))):
        assert array.dtype.kind == "U"
        assert array.tolist() == WORDS
    safe = tether.Categorical.from_probabilities([0.5, 0.5], ["wait", "act"])
    new = tether.Categorical.from_probabilities([0.2, 0.8], ["wait", "act"])
    losses = [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    contexts = ["x", "x", "y", "y", "x", "y"]
    log = tether.make_log(safe, new, form(contexts), form(WORDS), losses)
    plain = tether.make_log(safe, new, np.array(contexts), np.array(WORDS), losses)
    np.testing.assert_array_equal(log.log_optimized, plain.log_optimized)
    np.testing.assert_array_equal(log.context, plain.context)


def test_numbers_in_object_columns_are_numbers():
    assert plain_array(np.array([1, 2], dtype=object)).dtype == np.int64
    assert plain_array(np.array([1, 2.5], dtype=object)).dtype == np.float64
    assert plain_array(np.array([True, False], dtype=object)).dtype == np.bool_
    assert plain_array(np.array([True, 2], dtype=object)).dtype == object
    assert plain_array(np.array([1, 10**30], dtype=object)).dtype == object
    log = tether.Log(pd.Series([0, 1], dtype=object), [-1.0, -1.0], [-1.0, -1.0])
    assert log.loss["loss"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "values",
    [
        *(pd.Series(["a", None], dtype=kind) for kind in (None, "string", "category")),
        *(pl.Series(["a", None]), pa.array(["a", None]), pd.Series([pd.NaT, "a"], dtype=object)),
        np.array(["a", None], dtype=object),
        np.array(["a", None], dtype=np.dtypes.StringDType(na_object=None)),
    ],
)
def test_missing_values_are_shown_with_their_place(values):
    with pytest.raises(ValueError, match=r"groups\[[01]\] is missing \(.*; 1 such value\(s\) in 2"):
        plain_column("groups", values)


@given(st.lists(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans())))
def test_no_value_is_changed(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    for before, after in zip(values, plain_array(array).tolist(), strict=True):
        assert before == after or is_missing(before) == is_missing(after) is True


RNG = np.random.default_rng(0)
N = 60
FRAME = pd.DataFrame({"x": RNG.normal(size=N), "action": RNG.choice(["a", "b"], N), "loss": 0.0})
SHUFFLED, FILTERED = FRAME.sample(frac=1, random_state=0), FRAME[FRAME.x > 0]
SAFE = tether.Categorical.from_probabilities([0.5, 0.5], ["a", "b"])
NEW = tether.Categorical.from_probabilities([0.2, 0.8], ["a", "b"])
DIFFERENT = "have different row indexes"


@pytest.mark.parametrize(
    "call",
    [
        lambda mixed: tether.make_log(SAFE, NEW, FRAME[["x"]], FRAME.action, mixed.loss),
        lambda mixed: tether.make_log(SAFE, NEW, mixed[["x"]], FRAME.action, {"harm": FRAME.loss}),
        lambda mixed: tether.Log(FRAME.loss, FRAME.x, mixed.x),
        lambda mixed: tether.Proposals(FRAME.x, mixed.x),
        lambda mixed: tether.Claims(FRAME.x, mixed.loss, np.arange(0, N + 1, 4)),
        lambda mixed: tether.ScoredLabels(FRAME.x, mixed.loss),
    ],
)
def test_columns_in_different_orders_are_refused(call):
    with pytest.raises(ValueError, match=DIFFERENT):
        call(SHUFFLED)


def test_rows_are_compared_where_both_have_an_index():
    for other in (
        *(FRAME[["x"]], FRAME.x.to_numpy(), FRAME.x.tolist(), None, "optimized", FILTERED.x),
        *(pl.Series(FRAME.x.to_numpy()), FRAME.x.set_axis(np.arange(N, dtype=np.int32))),
    ):
        check_row_indexes({"one": FRAME.loss, "other": other})
    check_row_indexes({"one": FILTERED.loss, "other": pd.Series(FILTERED.x.to_numpy())})
    for one, other in (
        (FRAME.loss, SHUFFLED.x),
        (SHUFFLED.loss, FRAME.x),
        (FILTERED.loss, FILTERED.x.sort_values()),
        (FRAME.loss[1:21], FRAME.x[20:40]),
    ):
        with pytest.raises(ValueError, match=DIFFERENT):
            check_row_indexes({"numpy": one.to_numpy(), "first": one, "second": {"nested": other}})
