"""The reward model, against ridge regressions that are fitted without each row in turn."""

import numpy as np
import pytest

from tether.aiming.reward_model import RIDGE_PENALTIES, fit_rewards
from tether.aiming.training_rows import LoggedRows


def ridge(matrix, target, penalty):
    """Coefficients and intercept, which is not penalized."""
    columns = np.column_stack([matrix, np.ones(len(matrix))])
    penalties = penalty * np.eye(columns.shape[1])
    penalties[-1, -1] = 0
    return np.linalg.solve(columns.T @ columns + penalties, columns.T @ target)


@pytest.mark.parametrize("noise", [0.05, 3.0])
def test_the_penalty_is_the_best_without_each_row_in_turn(noise):
    rng = np.random.default_rng(0)
    contexts, actions = rng.normal(size=(30, 2)), np.arange(30) % 2
    rewards = contexts[:, 0] * actions + noise * rng.normal(size=30)
    model = fit_rewards(LoggedRows(contexts, actions, np.zeros(30), rewards))
    matrix = model.features(contexts, actions)
    errors = []
    for penalty in RIDGE_PENALTIES:
        error = 0.0
        for row in range(30):
            rest = np.arange(30) != row
            fitted = ridge(matrix[rest], rewards[rest], penalty)
            error += (rewards[row] - np.append(matrix[row], 1) @ fitted) ** 2
        errors.append(error)
    best = ridge(matrix, rewards, RIDGE_PENALTIES[int(np.argmin(errors))])
    expected = np.column_stack([matrix, np.ones(30)]) @ best
    assert model(contexts, actions) == pytest.approx(expected, abs=1e-6)


def test_a_table_and_rewards_that_are_all_alike():
    rows = LoggedRows(40, np.arange(40) % 2, np.zeros(40), np.full(40, 3.0))
    model = fit_rewards(rows)
    assert model.loss_table(1, np.array([0, 1])) == pytest.approx(np.full((1, 2), 3.0))
