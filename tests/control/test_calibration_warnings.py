"""What is said of a calibration before it is deployed."""

import numpy as np
import pytest

import tether


def test_a_row_with_the_largest_ratio_of_the_draws_is_covered():
    log = tether.Log(np.zeros(4), np.zeros(4), [0.5, 1.0, 1.5, -np.inf])
    found = tether.calibrate(log, tether.Proposals(np.zeros(2), [0.0, 1.0]), alpha=0.5)
    assert found.rows_beyond_draws == 1
    assert tether.calibrate(log, alpha=0.5).rows_beyond_draws == 0  # no draws were given


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_a_beta_that_changes_hardly_anything_is_called_the_safe_policy(family):
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=2000)
    safe = tether.Categorical.from_probabilities([[1 / 3, 1 / 3, 1 / 3]], actions=[0, 1, 2])
    new = tether.Categorical.from_probabilities([[1e-6, 1e-6, 1 - 2e-6]], actions=[0, 1, 2])
    losses = np.where(actions == 2, 0.35, 0.05)
    log = tether.make_log(safe, new, np.zeros(2000, dtype=int), actions, losses)
    words = "in practice the safe policy"
    barely = tether.calibrate(log, alpha=losses.mean() + 0.00055, family=family)
    assert barely.exists
    assert 0 < tether.gain(barely).changed.mean < 0.001
    assert any(words in each for each in barely.warnings)
    more = tether.calibrate(log, alpha=0.25, family=family)
    assert not any(words in each for each in more.warnings)


def test_a_policy_that_earns_less_is_warned_of():
    """The optimized policy shifts to larger actions, which earn more or less."""
    rng = np.random.default_rng(0)
    action = rng.normal(size=2000)
    columns = (action > 2.5, -(action**2) / 2, -((action - 0.5) ** 2) / 2)
    words = "this policy earns less than the safe one"
    for reward, is_said in ((-action, True), (action, False), (0 * action, False)):
        found = tether.calibrate(tether.Log(*columns, reward=reward), alpha=0.2)
        assert found.useful
        assert any(words in each for each in found.warnings) is is_said
