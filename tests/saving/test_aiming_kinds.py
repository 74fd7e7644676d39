"""Aimed policies and fitted loss models are the same after they were saved."""

import numpy as np
import pandas as pd
import pytest

import tether
from tests.saving.round_trip import round_trip
from tether.aiming import (
    AimedPolicy,
    FittedLoss,
    LoggedRows,
    PositionScore,
    TemperedPolicy,
    aim,
    aimed_candidates,
    fit_loss,
)
from tether.aiming.pair_features import PairFeatures
from tether.aiming.saved_log_odds import LinearLogOdds
from tether.policies import Picker
from tether.saving import policy_from_bytes, policy_to_bytes
from tether.saving.aiming_kinds import (
    _aimed_policy,
    _fitted_loss,
    _linear,
    _pair_features,
    _trees,
)

OPTIMIZED = tether.Categorical.from_probabilities([0.1, 0.2, 0.7])


def training_rows(rows=250, seed=0):
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(rows, 2)), rng.integers(3, size=rows)
    harmed = (rng.random(rows) < 1 / (1 + np.exp(3 - 2 * x[:, 0] * actions))).astype(float)
    return LoggedRows(x, actions, {"harm": harmed}, actions.astype(float))


def trees():
    """A loss model of trees, which the rows of a test are too few for."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = training_rows()
    features = PairFeatures(rows.contexts, rows.actions)
    model = HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=5, random_state=0)
    model.fit(features(rows.contexts, rows.actions), rows.losses["harm"])
    return FittedLoss("trees", 2.0, 0.1, (model,), features, 0.1, 0.9)


def test_every_candidate_can_be_saved():
    rows = training_rows()
    made = aimed_candidates(OPTIMIZED, {"harm": 0.1})(rows, np.random.default_rng(0))
    assert len(made) > 3
    for policy in made.values():
        data = policy_to_bytes(policy)
        loaded = policy_from_bytes(data)
        assert policy_to_bytes(loaded) == data
        x = rows.contexts[:50]
        assert loaded.log_prob_all(x) == pytest.approx(policy.log_prob_all(x), abs=1e-9)


def test_trees_are_saved_as_arrays_and_predict_the_same():
    model, x = trees(), training_rows(200, 1).contexts
    x[3, 0] = np.nan
    policy = AimedPolicy(OPTIMIZED, {"harm": model}, {"harm": 3.0})
    loaded = policy_from_bytes(policy_to_bytes(policy))
    actions = np.tile([0, 1, 2, 2], 50)
    predicted = loaded.loss_models["harm"](x, actions)
    assert predicted == pytest.approx(model(x, actions), abs=1e-12)
    round_trip(loaded, x)
    round_trip(TemperedPolicy(loaded, 0.5), x)


def test_a_model_that_saw_one_kind_of_loss_is_a_constant():
    model = fit_loss(None, [0, 1, 1, 0], [0.0, 0.0, 0.0, 0.0], rng=np.random.default_rng(0))
    assert model.kind == "constant"
    round_trip(AimedPolicy(OPTIMIZED, {"": model}, {"": 1.0}), 4)


def test_a_part_that_is_given_is_left_out_and_put_back():
    other = tether.Categorical.from_probabilities([0.3, 0.3, 0.4])
    aimed = aim(OPTIMIZED, lambda x, a: 0.3 * a, 1, 0.2)
    policy = AimedPolicy(OPTIMIZED, {"harm": trees()}, aimed.multipliers | {"harm": 1.0})
    data = policy_to_bytes(policy, given=OPTIMIZED)
    x = training_rows(50).contexts
    assert policy_from_bytes(data, given=OPTIMIZED).policy is OPTIMIZED
    again = policy_from_bytes(data, given=other)
    assert again.log_prob_all(x) == pytest.approx(
        AimedPolicy(other, policy.loss_models, policy.multipliers).log_prob_all(x), abs=1e-12
    )
    with pytest.raises(ValueError, match="pass it as `given`"):
        policy_from_bytes(data)
    assert policy_to_bytes(OPTIMIZED) != policy_to_bytes(OPTIMIZED, given=OPTIMIZED)


def test_a_picker_over_positions():
    rows = tether.Shortlist(tether.Gaussian(0.0), size=3).draw(20, np.random.default_rng(0))
    policy = Picker(PositionScore(TemperedPolicy(tether.Pool([0.0, 1.0, 2.0]), 0.5)), 3)
    round_trip(policy, rows)


def table(**changes):
    nodes = {
        "feature": np.zeros((1, 3), int),
        "threshold": np.zeros((1, 3)),
        "missing_left": np.zeros((1, 3), bool),
        "left": np.array([[1, 1, 2]]),
        "right": np.array([[2, 1, 2]]),
        "value": np.ones((1, 3)),
    }
    return nodes | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"left": np.array([[0, 1, 2]])},
        {"right": np.array([[3, 1, 2]])},
        {"left": np.array([[1, 0, 2]])},
        {"feature": np.full((1, 3), -1)},
        {"value": np.ones((1, 4))},
        {"threshold": np.zeros((1, 3), int)},
        {"value": None},
        {"value": np.full((1, 3), np.nan)},
    ],
)
def test_trees_that_no_walk_would_leave_are_refused(changes):
    assert _trees(0.0, 1, **table()).log_odds(np.array([[1.0], [-1.0]])).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="must"):
        _trees(0.0, 1, **table(**changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"models": ("none",)}, "model must be a"),
        ({"shift": np.inf}, "shift must be finite"),
        ({"bound": -1.0}, "bound must be above 0"),
    ],
)
def test_a_fitted_loss_that_cannot_predict_is_refused(changes, text):
    features = PairFeatures(np.arange(12.0), np.arange(12) % 3)
    entries = {"bound": 1.0, "improvement": 0.0, "shift": 0.0, "slope": 1.0, "models": ()}
    with pytest.raises(ValueError, match=text):
        _fitted_loss("linear", features=features, **(entries | changes))


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="coefficients must be finite"):
        _linear(np.array([1.0, np.nan]), 0.0)
    with pytest.raises(ValueError, match="multiplier must be finite"):
        _aimed_policy(OPTIMIZED, {"": trees()}, {"": np.inf})


def test_features_of_words_are_saved_and_loaded():
    frame = pd.DataFrame({"plan": ["basic", "plus", "trial"] * 4, "age": np.arange(12.0)})
    policy = tether.Categorical.from_probabilities([0.2, 0.3, 0.5])
    features = PairFeatures(frame, np.arange(12) % 3, (policy,))
    loss = FittedLoss(
        "linear", 1.0, 0.1, (LinearLogOdds(np.arange(20.0), -3.0),), features, 0.0, 1.0
    )
    aimed = AimedPolicy(policy, {"": loss}, {"": 2.0})
    loaded = policy_from_bytes(policy_to_bytes(aimed))
    np.testing.assert_array_equal(loaded.log_prob_all(frame), aimed.log_prob_all(frame))


@pytest.mark.parametrize("words", [None, ("plan",), (np.array([1.0]),), [None]])
def test_words_of_another_kind_are_refused(words):
    with pytest.raises(ValueError, match="words must be a list of words, or None"):
        _pair_features(None, words, *[np.zeros(0)] * 2, False, (), *[np.zeros(0)] * 2)
