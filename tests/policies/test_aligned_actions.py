"""The same actions in another order are matched by name."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import tether

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.normal(size=600), "y": RNG.normal(size=600)})
LABELS = np.where(FRAME.x > 0.5, "call", np.where(FRAME.x > -0.5, "email", "none"))
MODEL = LogisticRegression().fit(FRAME, LABELS)
TABLE = np.array([0.5, 0.3, 0.2])  # none, email, call


def rule(frame):
    return np.broadcast_to(TABLE, (len(frame), 3))


ORDERS = {"sorted": [2, 1, 0], "by hand": [0, 1, 2]}
NAMES = np.array(["none", "email", "call"])


def safe_in(order, kind):
    columns = ORDERS[order]
    given = (lambda frame: rule(frame)[:, columns]) if kind == "function" else TABLE[columns]
    return tether.Categorical.from_probabilities(given, NAMES[columns])


@pytest.mark.parametrize("kind", ["function", "vector"])
def test_calibration_and_service_do_not_depend_on_the_order(kind):
    actions = safe_in("sorted", kind).sample(FRAME, np.random.default_rng(1))
    losses = (np.random.default_rng(2).random(600) < 0.1 * (actions == "call")).astype(float)
    found, tables = {}, {}
    for order in ORDERS:
        safe = safe_in(order, kind)
        log = tether.make_log(safe, MODEL, FRAME, actions, losses)
        found[order] = tether.calibrate(log, alpha=0.04)
        policy = tether.Tethered(safe, MODEL, found[order])
        assert policy.actions.tolist() == ["call", "email", "none"]
        tables[order] = policy.log_prob_all(FRAME)
        scored = policy.log_prob(FRAME, actions)
        place = np.searchsorted(policy.actions, actions)
        np.testing.assert_allclose(scored, tables[order][np.arange(600), place])
        assert tether.make_proposals(safe, MODEL, FRAME, 2, RNG) is None
    assert 0 < found["sorted"].beta < np.inf
    assert found["sorted"].beta == found["by hand"].beta
    np.testing.assert_array_equal(tables["sorted"], tables["by hand"])


def test_a_policy_of_the_users_own_keeps_its_order_and_the_other_follows():
    class Own:
        actions = np.array(["email", "call", "none"])

        def sample(self, contexts, rng):
            return rng.choice(self.actions, size=len(contexts))

        def log_prob(self, contexts, actions):
            return np.full(len(actions), np.log(1 / 3))

        def log_prob_all(self, contexts):
            return np.full((len(contexts), 3), np.log(1 / 3))

    policy = tether.Tethered(Own(), MODEL, 1.0)
    assert policy.actions.tolist() == ["email", "call", "none"]
    assert np.exp(policy.log_prob_all(FRAME)).sum(axis=1) == pytest.approx(1)


def test_other_actions_are_still_refused():
    other = tether.Categorical.from_probabilities([0.5, 0.3, 0.2], ["none", "email", "visit"])
    with pytest.raises(ValueError, match="have different actions"):
        tether.Tethered(other, MODEL, 1.0)
    numbers = tether.Categorical.from_probabilities([0.5, 0.3, 0.2])
    with pytest.raises(ValueError, match="have different actions"):
        tether.Tethered(numbers, MODEL, 1.0)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_model_takes_its_own_features_from_a_frame_that_has_more(make):
    wide = make({"z": np.zeros(600), "y": FRAME.y.to_numpy(), "x": FRAME.x.to_numpy()})
    policy = tether.Categorical.from_classifier(MODEL)
    np.testing.assert_array_equal(policy.log_prob_all(wide), policy.log_prob_all(FRAME))
    lacking = make({"z": np.zeros(600), "y": FRAME.y.to_numpy()})
    with pytest.raises(ValueError, match="feature names"):
        policy.log_prob_all(lacking)


def test_actions_that_the_model_does_not_know_are_named_before_propensities_that_vary():
    """The features of the model do not tell rows apart that the rule told apart."""
    flat = FRAME.assign(x=0.0, y=0.0)
    with pytest.raises(ValueError, match=r"actions\[0\] is 'visit': expected one of 'call'"):
        tether.make_log(
            None, MODEL, flat, np.full(600, "visit"), np.zeros(600),
            propensities=np.linspace(0.1, 0.9, 600),
        )  # fmt: skip


def test_a_row_taken_out_of_a_frame_is_refused_by_a_model():
    policy = tether.Categorical.from_classifier(MODEL)
    with pytest.raises(ValueError, match=r"one row of a frame.*df.iloc\[\[0\]\]"):
        policy.sample(FRAME.iloc[0], np.random.default_rng(0))
