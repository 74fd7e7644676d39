"""Aimed policies, over actions, pools and shortlists."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression

import tether


def loss_by_hand(contexts, actions):
    return 0.1 * np.asarray(actions) * (1 + np.asarray(contexts)) / 2


OPTIMIZED = tether.Categorical.from_probabilities([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
CONTEXTS = np.array([0, 1, 1, 0, 1])


def predicted_loss(policy, contexts, model):
    chances = np.exp(policy.log_prob_all(contexts))
    losses = np.array([[model([x], [a])[0] for a in policy.actions] for x in contexts])
    return (np.broadcast_to(chances, losses.shape) * losses).sum(axis=1).mean()


def test_the_aimed_policy_is_predicted_to_lose_alpha():
    found = tether.aim(OPTIMIZED, loss_by_hand, CONTEXTS, alpha=0.06)
    assert found.reached
    assert found.predicted[""] == pytest.approx(0.06)
    assert predicted_loss(found.policy, CONTEXTS, loss_by_hand) == pytest.approx(0.06)
    assert found.before[""] == pytest.approx(predicted_loss(OPTIMIZED, CONTEXTS, loss_by_hand))
    weights = np.exp(OPTIMIZED.log_prob_all([0, 1]))
    weights = weights * np.exp(
        -found.multipliers[""] * np.array([loss_by_hand([x] * 3, range(3)) for x in (0, 1)])
    )
    expected = weights / weights.sum(axis=1, keepdims=True)
    assert np.exp(found.policy.log_prob_all([0, 1])) == pytest.approx(expected)
    assert np.exp(found.policy.log_prob([1, 0], [2, 0])) == pytest.approx(
        [expected[1, 2], expected[0, 0]]
    )


def test_it_draws_what_it_says():
    policy = tether.aim(OPTIMIZED, loss_by_hand, CONTEXTS, alpha=0.06).policy
    draws = policy.sample(np.ones(40_000, int), np.random.default_rng(0))
    expected = np.exp(policy.log_prob_all([1]))[0]
    assert np.bincount(draws) / len(draws) == pytest.approx(expected, abs=0.01)


def test_a_pool_has_no_contexts():
    pool = tether.Pool([0.0, 1.0, 2.0])
    found = tether.aim(pool, lambda _, actions: actions / 4, 1, alpha=0.25)
    assert found.predicted[""] == pytest.approx(0.25)
    assert found.policy.log_prob_all(7).shape == (1, 3)
    assert found.policy.sample(5, np.random.default_rng(0)).shape == (5,)


def test_a_policy_without_contexts_is_tilted_in_each_of_them():
    everywhere = tether.Categorical.from_probabilities([0.5, 0.5])
    found = tether.aim(everywhere, lambda x, a: 0.4 * x * a, np.array([0, 1]), alpha=0.05)
    assert np.exp(found.policy.log_prob_all(np.array([0, 1])))[0] == pytest.approx([0.5, 0.5])
    assert found.predicted[""] == pytest.approx(0.05)


def test_models_of_scikit_learn():
    rng = np.random.default_rng(0)
    x, a = rng.integers(2, size=4_000), rng.integers(3, size=4_000)
    losses = rng.random(4_000) < loss_by_hand(x, a)
    matrix = np.column_stack([x, a])
    classifier = LogisticRegression().fit(matrix, losses)
    regressor = RandomForestRegressor(20, min_samples_leaf=50, random_state=0).fit(matrix, losses)
    for model in (classifier, regressor):
        found = tether.aim(OPTIMIZED, model, CONTEXTS, alpha=0.06)
        assert found.predicted[""] == pytest.approx(0.06)
        assert predicted_loss(found.policy, CONTEXTS, loss_by_hand) == pytest.approx(0.06, abs=0.03)
    own = LogisticRegression().fit(matrix[:, :1] * matrix[:, 1:], losses)
    found = tether.aim(OPTIMIZED, own, CONTEXTS, alpha=0.06, features=lambda x, a: (x * a)[:, None])
    assert found.reached


def test_several_losses_have_a_multiplier_each():
    models = {"late": loss_by_hand, "wrong": lambda _, actions: 0.3 * (actions == 0)}
    found = tether.aim(OPTIMIZED, models, CONTEXTS, {"late": 0.06, "wrong": 0.08})
    assert found.predicted["late"] <= 0.06 * 1.001
    assert found.predicted["wrong"] <= 0.08 * 1.001
    assert all(each > 0 for each in found.multipliers.values())
    loose = tether.aim(OPTIMIZED, models, CONTEXTS, {"late": 0.06, "wrong": 0.9})
    assert loose.multipliers["wrong"] == pytest.approx(0, abs=1e-6)
    assert "loss 'late'" in str(loose)


def test_a_shortlist_of_a_policy_over_numbers():
    rng = np.random.default_rng(0)
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.5)
    shortlist = tether.Shortlist(safe, optimized, size=8)
    model = lambda _, actions: 1 / (1 + np.exp(-4 * (actions - 1.5)))  # noqa: E731
    found = tether.aim(shortlist, model, 2_000, alpha=0.1, rng=rng)
    assert found.predicted[""] == pytest.approx(0.1)
    assert found.before[""] > 0.2
    rows = shortlist.draw(20_000, rng)
    served = rows.picked(found.policy.required_picker.sample(rows, rng))
    assert model(None, served).mean() == pytest.approx(0.1, abs=0.02)
    actions = safe.sample(1_000, rng)
    losses = rng.random(1_000) < model(None, actions)
    calibrated = tether.calibrate(found.policy.make_log(None, actions, losses, rng), alpha=0.1)
    assert found.policy.tethered(calibrated).sample(10, rng).shape == (10,)
    again = tether.aim(shortlist, model, rows, alpha=0.1)
    assert again.predicted[""] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"optimized": tether.Gaussian(0.0)}, TypeError, "aim a shortlist of it"),
        ({"loss_model": 3}, TypeError, "loss_model must be a function"),
        ({"loss_model": LogisticRegression}, TypeError, "not a class"),
        ({"loss_model": {}}, ValueError, "at least one loss"),
        ({"alpha": 0.0}, ValueError, "alpha must be"),
        ({"alpha": {"a": 0.1}}, ValueError, "the same losses"),
        ({"loss_model": lambda x, a: a * np.nan}, ValueError, "finite loss"),
        ({"loss_model": lambda x, a: a[:2]}, ValueError, "one each"),
        ({"optimized": tether.Shortlist(tether.Gaussian(0.0), np.add)}, TypeError, "rng is requ"),
    ],
)
def test_wrong_arguments_are_named(changed, error, text):
    given = {"optimized": OPTIMIZED, "loss_model": loss_by_hand, "contexts": CONTEXTS, "alpha": 0.1}
    with pytest.raises(error, match=text):
        tether.aim(**(given | changed))
