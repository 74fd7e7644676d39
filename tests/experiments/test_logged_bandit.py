"""The logged bandit: estimates against brute force, and what the experiment must show."""

import numpy as np
import pytest
from experiments.logged_bandit.bandit import Impressions, click_rate, distance, learned, uniform

import tether


def simulated(rng, policy, rates, size):
    position = rng.integers(3, size=size)
    item = policy.sample(position, rng)
    click = (rng.random(size) < rates[position, item]).astype(float)
    return Impressions(position, item, click, np.exp(policy.log_prob(position, item)))


def test_click_rates_come_out_right_from_another_policys_rows():
    rng = np.random.default_rng(0)
    rates = rng.uniform(0.05, 0.5, size=(3, 5))
    other = tether.Categorical.from_probabilities(rng.dirichlet(np.ones(5) * 3, size=3))
    target = tether.Categorical.from_probabilities(rng.dirichlet(np.ones(5) * 3, size=3))
    truth = (np.exp(target.log_prob_all(np.arange(3))) * rates).sum(axis=1).mean()
    found = [click_rate(target, simulated(rng, other, rates, 2_000)) for _ in range(200)]
    mean, spread = np.mean([each.rate for each in found]), np.std([each.rate for each in found])
    assert abs(mean - truth) < 4 * spread / np.sqrt(200)
    assert np.mean([each.error for each in found]) == pytest.approx(spread, rel=0.15)
    rows = simulated(rng, other, rates, 500)
    weight = np.exp(target.log_prob(rows.position, rows.item)) / rows.propensity
    assert click_rate(target, rows).effective == pytest.approx(sum(weight) ** 2 / sum(weight**2))


def test_learned_policies_follow_the_counts_and_have_full_support():
    position, item = np.array([[0, 0, 0, 1, 2], [1, 1, 2, 0, 0]])
    shown = Impressions(position, item, np.zeros(5), np.ones(5))
    frozen = np.exp(learned("frozen", shown, 3).log_prob_all(np.arange(3)))
    np.testing.assert_allclose(frozen[0], [1 / 6, 3 / 6, 2 / 6])
    neglected = np.exp(learned("neglected", shown, 3).log_prob_all(np.arange(3)))
    np.testing.assert_allclose(neglected[0], np.array([6, 2, 3]) / 11)
    assert distance(learned("frozen", shown, 3), uniform(3)) == pytest.approx(3 / 6 / 3)
