"""Aimed policies: the tilt by brute force, over actions, pools and shortlists."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression

import tether
from tether.aiming import AimedPolicy
from tether.aiming.aim import solve_multipliers

OPTIMIZED = tether.Categorical.from_probabilities([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
CONTEXTS = np.array([0, 1, 1, 0, 1])


def by_hand(contexts, actions):
    return 0.1 * np.asarray(actions) * (1 + np.asarray(contexts)) / 2


def test_the_aimed_policy_is_the_tilt_that_is_predicted_to_lose_alpha():
    found = tether.aim(OPTIMIZED, by_hand, CONTEXTS, alpha=0.06)
    losses = by_hand(np.asarray(CONTEXTS)[:, None], np.arange(3))
    chances = np.exp(OPTIMIZED.log_prob_all(CONTEXTS))
    tilted = chances * np.exp(-found.multipliers[""] * losses)
    tilted /= tilted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(found.policy.log_prob_all(CONTEXTS)), tilted)
    assert (tilted * losses).sum(axis=1).mean() == pytest.approx(0.06)
    assert found.predicted[""] == pytest.approx(0.06)
    assert found.before[""] == pytest.approx((chances * losses).sum(axis=1).mean())
    assert found.reached
    draws = found.policy.sample(np.ones(40_000, int), np.random.default_rng(0))
    assert np.bincount(draws) / 40_000 == pytest.approx(tilted[1], abs=0.01)


CHANCES = st.lists(st.floats(0.01, 1), min_size=3, max_size=3)
TABLE = st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=4)


@given(TABLE, CHANCES, st.floats(0.02, 0.9))
def test_one_multiplier_is_the_minimum_of_the_dual(losses, chances, alpha):
    losses, table = np.array(losses), np.log(np.array(chances) / np.sum(chances))
    table = np.tile(table, (len(losses), 1))
    value = solve_multipliers(table, losses[None], np.array([alpha]))[0]

    def dual(each):
        return np.logaddexp.reduce(table - each * losses, axis=1).mean() + each * alpha

    widest = np.ptp(losses, axis=1).max()
    if widest < 1e-3:  # nothing to tilt by
        return
    limit = 50 / widest
    best = minimize_scalar(dual, bounds=(0, limit), method="bounded").fun
    assert dual(value) <= min(best, dual(0.0), dual(limit)) + 1e-6
    assert 0 <= value <= limit * (1 + 1e-9)


@given(TABLE, st.floats(0.02, 0.9), st.floats(0.02, 0.9), st.integers(0, 99))
@example([[0.71875, 0.0, 0.125]], 0.021484375, 0.21875, 0)  # not both can be reached
def test_several_multipliers_leave_no_predicted_loss_above_its_alpha(first, one, other, seed):
    predicted = np.array([first, np.random.default_rng(seed).random(np.shape(first))])
    table, alphas = np.log(np.full(np.shape(first), 1 / 3)), np.array([one, other])
    values = solve_multipliers(table, predicted, alphas)
    chances = softmax(table - np.tensordot(values, predicted, 1), axis=1)
    after = (chances * predicted).sum(axis=2).mean(axis=1)
    possible = predicted.min(axis=2).mean(axis=1) <= alphas - 0.05
    if possible.all() and (np.sum(predicted, axis=0).min(axis=1).mean() < alphas.min() - 0.05):
        assert (after <= alphas * 1.001 + 1e-9).all()
    assert (values[after < alphas - 1e-3] < 1e-3).all()  # complementary slackness


def test_a_policy_that_loses_less_anyway_is_left_alone_and_one_that_cannot_is_told():
    left = tether.aim(OPTIMIZED, by_hand, CONTEXTS, alpha=0.5)
    assert left.multipliers[""] == 0
    same = left.policy.log_prob_all(CONTEXTS), OPTIMIZED.log_prob_all(CONTEXTS)
    np.testing.assert_array_equal(*same)
    hopeless = tether.aim(OPTIMIZED, lambda x, a: np.full(len(a), 0.9), CONTEXTS, alpha=0.1)
    assert not hopeless.reached


def test_pools_several_losses_and_models_of_scikit_learn():
    pool = tether.Pool([0.0, 1.0, 2.0])
    found = tether.aim(pool, lambda _, actions: actions / 4, 1, alpha=0.25)
    assert found.predicted[""] == pytest.approx(0.25)
    assert found.policy.log_prob_all(7).shape == (1, 3)
    models = {"harm": by_hand, "delay": lambda x, a: 0.3 * (np.asarray(a) == 0)}
    both = tether.aim(OPTIMIZED, models, CONTEXTS, {"harm": 0.07, "delay": 0.15})
    assert both.reached
    assert all(both.predicted[name] <= both.alphas[name] * 1.001 for name in models)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "action": rng.integers(3, size=300)})
    harm = (rng.random(300) < frame["action"] / 3).astype(int)
    policy = tether.Categorical.from_probabilities([0.1, 0.2, 0.7])
    for model in (LogisticRegression(), RandomForestRegressor(5, random_state=0)):
        aimed = tether.aim(policy, model.fit(frame, harm), frame[["x"]], alpha=0.3)
        assert aimed.before[""] > aimed.predicted[""] == pytest.approx(0.3)
        plain = model.fit(frame.to_numpy(), harm)
        by_array = tether.aim(policy, plain, frame[["x"]].to_numpy(), alpha=0.3)
        assert by_array.multipliers[""] == pytest.approx(aimed.multipliers[""])


def test_a_shortlist_is_aimed_over_its_candidates():
    rng = np.random.default_rng(0)
    shortlist = tether.Shortlist(tether.Gaussian(0.0), lambda x, c: c, size=4)
    rows = shortlist.draw(2000, rng)

    def cost(contexts, actions):
        return (actions > 1).astype(float)

    found = tether.aim(shortlist, cost, rows, alpha=0.15)
    chances = np.exp(found.policy.required_picker.log_prob_all(rows))
    assert (chances * (rows.candidates > 1)).sum(axis=1).mean() == pytest.approx(0.15)
    weights = np.exp(rows.candidates - found.multipliers[""] * (rows.candidates > 1))
    np.testing.assert_allclose(chances, weights / weights.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    "change",
    [
        *({"alpha": 0.0}, {"alpha": {"harm": 0.1}}, {"loss_model": {}}, {"loss_model": 3}),
        *({"loss_model": lambda x, a: a * np.nan}, {"optimized": tether.Gaussian(0.0)}),
    ],
)
def test_wrong_arguments_are_refused(change):
    given = {"optimized": OPTIMIZED, "loss_model": by_hand, "contexts": CONTEXTS, "alpha": 0.06}
    with pytest.raises((ValueError, TypeError), match=next(iter(change))):
        tether.aim(**(given | change))
    with pytest.raises(ValueError, match="multipliers"):
        AimedPolicy(OPTIMIZED, {"": by_hand}, {"": np.nan})
