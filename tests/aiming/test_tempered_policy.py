"""Tempered policies."""

import numpy as np
import pytest

import tether
from tether.aiming import TemperedPolicy


@pytest.mark.parametrize("temperature", [0.25, 1.0, 3.0])
def test_it_is_the_power_of_the_policy(temperature):
    chances = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    policy = TemperedPolicy(tether.Categorical.from_probabilities(chances), temperature)
    expected = chances ** (1 / temperature)
    expected /= expected.sum(axis=1, keepdims=True)
    assert np.exp(policy.log_prob_all([0, 1])) == pytest.approx(expected)
    assert np.exp(policy.log_prob([1, 0], [2, 0])) == pytest.approx(
        [expected[1, 2], expected[0, 0]]
    )
    draws = policy.sample(np.zeros(20_000, int), np.random.default_rng(0))
    assert np.bincount(draws, minlength=3) / 20_000 == pytest.approx(expected[0], abs=0.015)
    assert repr(policy).endswith(f"temperature={temperature:g})")


def test_the_temperature_is_positive():
    with pytest.raises(ValueError, match="temperature"):
        TemperedPolicy(tether.Categorical.from_probabilities([0.5, 0.5]), 0.0)
