"""Fitted loss models: as complex as held-out rows ask for, and no more."""

import numpy as np
import pandas as pd
import pytest

import tether
from tether.aiming.fitted_loss import PairFeatures, fit_loss, fit_rewards

pytestmark = pytest.mark.usefixtures("one_thread")


def rows_of(n, seed=0, curved=False):
    rng = np.random.default_rng(seed)
    contexts, actions = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    log_odds = 3 * contexts[:, 0] ** 2 - 3 if curved else 3 * contexts[:, 0]
    risk = np.where(actions == 1, 1 / (1 + np.exp(-log_odds)), 0.05)
    return contexts, actions, (rng.random(n) < risk).astype(float), risk, rng


@pytest.mark.parametrize(("curved", "kind"), [(False, "linear"), (True, "quadratic")])
def test_the_risk_is_learned_by_the_kind_that_it_needs(curved, kind):
    contexts, actions, losses, _, rng = rows_of(1500, curved=curved)
    model = fit_loss(contexts, actions, losses, rng=rng)
    assert model.kind == kind
    contexts, actions, _, risk, _ = rows_of(2000, seed=1, curved=curved)
    assert np.mean((model(contexts, actions) - risk) ** 2) < 0.2 * np.var(risk)


def test_without_a_pattern_or_with_few_losses_it_is_a_constant():
    kinds = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        contexts, actions = rng.normal(size=(60, 4)), rng.integers(2, size=60)
        noise = fit_loss(contexts, actions, (rng.random(60) < 0.2).astype(float), rng=rng)
        few = fit_loss(contexts, actions, (np.arange(60) < 3).astype(float), rng=rng)
        kinds.append(noise.kind)
        assert few.kind == "constant"
        assert 0 < few(contexts, actions)[0] < 0.1
    assert kinds.count("constant") >= 6


def test_fractions_and_bounds():
    contexts, actions, losses, *_ = rows_of(600)
    whole = fit_loss(contexts, actions, 5 * losses, rng=np.random.default_rng(1), bound=5.0)
    predicted = whole(contexts, actions)
    assert 0 <= predicted.min() < predicted.max() <= 5
    half = fit_loss(contexts, actions, 0.5 * losses, rng=np.random.default_rng(1))
    assert half(contexts, actions).mean() == pytest.approx(0.5 * losses.mean(), rel=0.1)


def test_words_missing_numbers_and_policies_are_features():
    rng = np.random.default_rng(0)
    ward, age = rng.choice(["a", "b"], size=400), rng.normal(60, 10, size=400)
    losses = (rng.random(400) < np.where(ward == "a", 0.6, 0.05)).astype(float)
    frame, actions = pd.DataFrame({"ward": ward, "age": age}), rng.choice(["x", "y"], size=400)
    frame.loc[::7, "age"] = np.nan
    model = fit_loss(frame, actions, losses, rng=rng)
    assert model.kind == "linear"
    asked = pd.DataFrame({"ward": ["a", "b", "never seen"], "age": [60.0, np.nan, 50.0]})
    found = model(asked, np.array(["x", "y", "x"]))
    assert found[0] > 0.4 > 0.15 > found[1]
    assert np.isfinite(found).all()
    safe = tether.Categorical.from_logits(lambda x: np.column_stack([x, -x]), actions=[0, 1])
    contexts, actions = rng.normal(size=400), rng.integers(2, size=400)
    features = PairFeatures(contexts, actions, [safe])
    scores = safe.log_prob(contexts, actions)
    column = (scores - scores.mean()) / scores.std()
    assert any(np.allclose(each, column) for each in features(contexts, actions).T)


def test_rewards_by_ridge_regression_or_a_constant():
    contexts, actions, *_ = rows_of(500)
    rewards = contexts @ [1.0, -2.0] * actions
    model = fit_rewards(contexts, actions, rewards)
    np.testing.assert_allclose(model(contexts, actions), rewards, atol=0.05)
    odd = np.array([{"a": 1}, {"b": 2}], dtype=object)
    assert fit_rewards(odd, actions[:2], np.array([1.0, 3.0]))(odd, actions[:2]).tolist() == [2, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"losses": [0.5, 2.0]}, {"losses": [0.5]}, {"losses": [-1.0, 0.0]}, {"bound": 0.0},
        {"actions": [[{}], [{}]]}, {"contexts": [[{}], [{}]]}, {"rng": 3},
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(change):
    given = {"contexts": [0.0, 1.0], "actions": [0, 1], "losses": [0.0, 1.0]}
    with pytest.raises((ValueError, TypeError), match=next(iter(change))):
        fit_loss(**({**given, "rng": np.random.default_rng(0)} | change))
