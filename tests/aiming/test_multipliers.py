"""The tilt is the nearest policy that is predicted to lose no more than alpha."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.aiming.multipliers import MAX_TILT, mean_losses, solve_multipliers, tilted


def world(seed, contexts=3, actions=4, losses=1, impossible=False):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(actions), size=contexts)
    if impossible:
        chances[0, 0] = 0
        chances /= chances.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.log(chances), rng.random((losses, contexts, actions))


def divergence(policy, reference):
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(policy > 0, policy * (np.log(policy) - reference), 0.0)
    return terms.sum() / len(policy)


@given(st.integers(0, 10**6), st.floats(0.05, 0.95), st.booleans())
@settings(max_examples=60, deadline=None)
def test_one_loss_against_a_search_by_hand(seed, alpha, impossible):
    table, predicted = world(seed, impossible=impossible)
    found = solve_multipliers(table, predicted, np.array([alpha]))

    def loss(value):
        weights = np.exp(table) * np.exp(-value * predicted[0])
        return (weights * predicted[0]).sum(axis=1) @ (1 / weights.sum(axis=1)) / len(table)

    assert found.before[0] == pytest.approx(loss(0.0))
    if loss(0.0) <= alpha:
        assert found.values[0] == 0
        return
    low, high = 0.0, 1.0
    while loss(high) > alpha and high < 200:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) > alpha else (low, middle)
    if found.reached and found.after[0] == pytest.approx(alpha, rel=1e-6):
        assert found.values[0] == pytest.approx(high, rel=1e-5)
    else:
        assert loss(MAX_TILT) >= alpha * (1 - 1e-6)  # the range of the losses is at most 1


@given(st.integers(0, 10**6), st.integers(2, 3))
@settings(max_examples=40, deadline=None)
def test_several_losses_meet_the_conditions_of_the_nearest_policy(seed, losses):
    table, predicted = world(seed, contexts=4, actions=6, losses=losses)
    rng = np.random.default_rng(seed)
    before = mean_losses(table, predicted)
    alphas = before * rng.uniform(0.7, 1.3, size=losses)
    found = solve_multipliers(table, predicted, alphas)
    if not found.reached:
        return
    assert (found.after <= alphas * (1 + 1e-3)).all()
    slack = (found.values > 1e-3) & (found.after < alphas * (1 - 1e-2))
    assert not slack.any()  # a loss below its alpha does not tilt
    nearest = divergence(np.exp(tilted(table, predicted, found.values)), table)
    for _ in range(200):
        other = rng.dirichlet(np.ones(table.shape[1]), size=len(table))
        other = 0.9 * np.exp(tilted(table, predicted, found.values * rng.random())) + 0.1 * other
        if (mean_losses(np.log(other), predicted) <= found.after).all():
            assert divergence(other, table) >= nearest - 1e-6


def test_a_policy_within_alpha_stays_as_it_is():
    table, predicted = world(0)
    found = solve_multipliers(table, predicted, np.array([1.0]))
    assert found.values[0] == 0
    assert found.reached
    assert tilted(table, predicted, found.values) == pytest.approx(table)


def test_what_no_policy_can_reach_is_said():
    table, _ = world(0)
    found = solve_multipliers(table, np.full((1, *table.shape), 0.5), np.array([0.1]))
    assert not found.reached
    assert found.after[0] == pytest.approx(0.5)
    predicted = np.clip(world(0)[1], 0.3, 1)
    found = solve_multipliers(table, predicted, np.array([0.1]))
    assert not found.reached
    assert found.after[0] < found.before[0]


def test_an_action_that_is_never_taken_has_no_say():
    table = np.log(np.array([[0.5, 0.5, 1e-300]]))
    table[0, 2] = -np.inf
    predicted = np.array([[[0.2, 0.8, 0.0]]])
    found = solve_multipliers(table, predicted, np.array([0.1]))
    assert not found.reached
    assert found.after[0] == pytest.approx(0.2, abs=1e-6)
