"""Columns of pandas are taken side by side only where their rows are in the same order."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tether
from tether._core.arrays import check_row_indexes

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
