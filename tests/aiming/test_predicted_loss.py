"""Predicted losses of policies, compared with sums by hand."""

import numpy as np
import pytest

import tether
from tether.aiming import PositionScore, TemperedPolicy, predicted_losses
from tether.policies import Picker, ShortlistRows


def test_the_mean_over_contexts_and_actions():
    policy = tether.Categorical.from_probabilities([[0.5, 0.5], [0.1, 0.9]])
    models = {"harm": lambda x, a: 0.2 * x + 0.4 * a, "cost": lambda x, a: 1.0 * a}
    found = predicted_losses(policy, models, np.array([0, 1, 1]))
    assert found["harm"] == pytest.approx(np.mean([0.2, 0.56, 0.56]))
    assert found["cost"] == pytest.approx(np.mean([0.5, 0.9, 0.9]))
    assert predicted_losses(policy, {}, np.array([0])) == {}
    pool = tether.Pool(np.log([1.0, 3.0]))
    assert predicted_losses(pool, {"cost": models["cost"]}, 1) == pytest.approx({"cost": 0.75})


def test_a_picker_by_position_is_the_policy_over_positions():
    rows = ShortlistRows(np.array([0.0, 1.0]), np.array([[3.0, 1.0], [2.0, 5.0]]))
    picker = Picker(lambda contexts, candidates: candidates, 2)
    sharper = TemperedPolicy(picker, 0.5)
    again = Picker(PositionScore(sharper), 2)
    assert again.log_prob_all(rows) == pytest.approx(sharper.log_prob_all(rows))
    assert "PositionScore" in repr(PositionScore(sharper))
    fixed = Picker(PositionScore(tether.Pool([0.0, 1.0])), 2)
    assert fixed.log_prob_all(rows).shape == (2, 2)
