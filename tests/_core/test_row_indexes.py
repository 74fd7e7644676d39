"""Columns of pandas are taken side by side only where their rows are in the same order."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

import tether
from tether._core.arrays import check_row_indexes
from tether.aiming.fitted_loss import fit_loss
from tether.learn import TetheredClassifier, ThresholdClassifier

RNG = np.random.default_rng(0)
N = 60
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(size=N),
        "action": RNG.choice(["a", "b"], N),
        "loss": (RNG.random(N) < 0.2).astype(float),
        "label": RNG.integers(2, size=N),
        "item": np.arange(N) // 4,
        "log_safe": -RNG.random(N),
        "log_optimized": -RNG.random(N),
    }
)
SHUFFLED = FRAME.sample(frac=1, random_state=0)
SAFE = tether.Categorical.from_probabilities([0.5, 0.5], ["a", "b"])
NEW = tether.Categorical.from_probabilities([0.2, 0.8], ["a", "b"])
FITTED = LogisticRegression().fit(FRAME[["x"]], FRAME.action)
CLASSIFIERS = (DummyClassifier(strategy="uniform"), LogisticRegression())
SHORTLIST = tether.Shortlist(tether.Gaussian(0.0), tether.Gaussian(1.0), size=4)
DIFFERENT = "have different row indexes"

CALLS = {
    "the losses of make_log": lambda mixed: tether.make_log(
        SAFE, NEW, FRAME[["x"]], FRAME.action, mixed.loss
    ),
    "one of several losses": lambda mixed: tether.make_log(
        SAFE, NEW, FRAME[["x"]], FRAME.action, {"harm": FRAME.loss, "cost": mixed.loss}
    ),
    "the propensities of make_log": lambda mixed: tether.make_log(
        None, NEW, None, FRAME.action, FRAME.loss, propensities=mixed.loss * 0 + 0.5
    ),
    "the rewards of make_log": lambda mixed: tether.make_log(
        SAFE, NEW, None, FRAME.action, FRAME.loss, rewards=mixed.x
    ),
    "a shortlist": lambda mixed: SHORTLIST.make_log(
        None, FRAME.x, mixed.loss, np.random.default_rng(0)
    ),
    "the actions beside a shortlist": lambda mixed: SHORTLIST.join(
        FRAME[["label"]], mixed.x, np.random.default_rng(0)
    ),
    "Log": lambda mixed: tether.Log(FRAME.loss, FRAME.log_safe, mixed.log_optimized),
    "the contexts of Log": lambda mixed: tether.Log(
        FRAME.loss, FRAME.log_safe, FRAME.log_optimized, context=mixed.item
    ),
    "Proposals": lambda mixed: tether.Proposals(FRAME.log_safe, mixed.log_optimized),
    "Claims": lambda mixed: tether.Claims(FRAME.x, mixed.label, np.arange(0, N + 1, 4)),
    "ScoredLabels": lambda mixed: tether.ScoredLabels(FRAME.x, mixed.label),
    "TetheredClassifier.fit": lambda mixed: TetheredClassifier(*CLASSIFIERS, alpha=0.9).fit(
        FRAME[["x"]], mixed.action
    ),
    "TetheredClassifier.calibrate": lambda mixed: TetheredClassifier(
        FITTED, FITTED, alpha=0.9
    ).calibrate(FRAME[["x"]], actions=FRAME.action, losses=mixed.loss),
    "ThresholdClassifier.fit": lambda mixed: ThresholdClassifier(
        LogisticRegression(), alpha=0.9
    ).fit(FRAME[["x"]], mixed.label),
    "ThresholdClassifier.calibrate": lambda mixed: ThresholdClassifier(FITTED, alpha=0.9).calibrate(
        FRAME[["x"]], mixed.action
    ),
    "the fit of a loss model": lambda mixed: fit_loss(
        FRAME[["x"]], FRAME.label, mixed.loss, rng=np.random.default_rng(0)
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_columns_in_different_orders_are_refused(name):
    with pytest.raises(ValueError, match=DIFFERENT):
        CALLS[name](SHUFFLED)


FILTERED = FRAME[FRAME.x > 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FRAME.loss, FRAME[["x"]]),
        (SHUFFLED.loss, SHUFFLED[["x"]]),
        (FILTERED.loss, FILTERED[["x"]]),
        (FILTERED.loss, FILTERED.x.to_numpy()),
        (FILTERED.loss, FILTERED.x.tolist()),
        (FILTERED.loss, pd.Series(FILTERED.x.to_numpy())),
        (FILTERED.loss, pl.Series(FILTERED.x.to_numpy())),
        (FRAME.loss, FRAME.x.set_axis(np.arange(N, dtype=np.int32))),
        (pd.Series([1.0], index=pd.Index(["a"], dtype=object)), pd.Series([1.0], index=["a"])),
        (FRAME.loss, None),
        (FRAME.loss, "optimized"),
        (FRAME.loss, FILTERED.x),  # lengths are compared elsewhere
    ],
)
def test_columns_that_may_be_in_the_same_order_are_accepted(one, other):
    check_row_indexes({"one": one, "other": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FRAME.loss, SHUFFLED.x),
        (SHUFFLED.loss, FRAME.x),
        (FILTERED.loss, FILTERED.x.sort_values()),
        (FRAME.loss[1:21], FRAME.x[20:40]),
        (FRAME.loss.set_axis([f"u{row}" for row in range(N)]), SHUFFLED.x.add_prefix("u")),
    ],
)
def test_columns_in_other_orders_are_told(one, other):
    first, second = pd.Series(np.zeros(len(one))), {"nested": other}
    with pytest.raises(ValueError, match=DIFFERENT):
        check_row_indexes({"numpy": np.zeros(len(one)), "first": one, "second": second})
    check_row_indexes({"first": first.to_numpy(), "second": second})
