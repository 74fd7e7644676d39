"""The active-learning experiment: its parts against brute force, and what it must show."""

import numpy as np
import pytest
from experiments.active_learning import learner, surrogate, worlds

import tether

SETTINGS = {"initial": 40, "iterations": 6, "train_share": 0.5, "train_probability": 0.3}
SETTINGS |= {"constant": 0.5, "noise": 0.2, "fitted": False, "curiosity": 10.0}
SETTINGS |= {"label_noise": 0.05, "infeasible_noise": 1.1, "draws": 200}


def small_world(rng, size=60):
    features = rng.normal(size=(size, 3))
    component = (features[:, 0] - features[:, 0].min()) / np.ptp(features[:, 0])
    infeasible = rng.random(size) < worlds.infeasibility(component, 0.2)
    labels = features @ [1.0, -2.0, 0.5] + 3
    safe = tether.Pool(6 * component)
    return worlds.World(features, labels, infeasible, features[:20], labels[:20], safe)


def kernel(a, b, constant):
    return constant**2 + a @ b.T


def test_surrogate_is_the_gaussian_process_of_its_kernel():
    rng = np.random.default_rng(0)
    rows, asked = 3 * rng.normal(size=(30, 4)) + 1, rng.normal(size=(7, 4))
    labels = rng.normal(size=30) + 5
    model = surrogate.Surrogate(0.7, 0.3)
    model.add(rows[:10], labels[:10])
    for row in range(10, 30):  # one by one, as the learner does
        model.add(rows[row : row + 1], labels[row : row + 1])
    inner = kernel(rows, rows, 0.7) + 0.3 * np.eye(30)
    cross = kernel(asked, rows, 0.7)
    weight = np.linalg.solve(inner, cross.T).T
    np.testing.assert_allclose(model.mean(asked), weight @ labels, rtol=1e-9)
    variance = np.diag(kernel(asked, asked, 0.7)) - (weight * cross).sum(axis=1)
    np.testing.assert_allclose(model.variance(asked), variance, rtol=1e-8)
    size = np.linalg.slogdet(inner)[1] + 30 * np.log(2 * np.pi)
    evidence = -(labels @ np.linalg.solve(inner, labels) + size) / 2
    assert model.log_evidence(rows, labels) == pytest.approx(evidence, rel=1e-9)


def test_mixture_is_that_of_the_policies_deployed_each_with_its_beta_and_count():
    rng = np.random.default_rng(4)
    world = small_world(rng)
    state = learner.Learner(world, 0.4, SETTINGS, rng)
    deployed, counts = [world.safe], [state.safe_rows]
    for _ in range(12):
        optimized = state.curious()
        found = state.calibrate(optimized)
        policy = tether.Tethered(world.safe, optimized, found)
        before = np.count_nonzero(~state.trains)
        state.acquire(policy)
        if np.count_nonzero(~state.trains) > before:
            deployed.append(policy)
            counts.append(1)
    assert len(deployed) > 4
    assert len({policy.log_beta for policy in deployed[1:]}) > 1
    whole = tether.Mixture(deployed, counts)
    np.testing.assert_allclose(state.log_mix, whole.log_prob_all(1)[0], atol=1e-12)
    assert np.exp(state.log_mix).sum() == pytest.approx(1)


def test_the_optimized_policy_never_sees_the_calibration_rows():
    world = small_world(np.random.default_rng(5))
    state = learner.Learner(world, 0.3, SETTINGS, np.random.default_rng(6))
    before = state.curious().log_prob_all(1), state.aimed().log_prob_all(1)
    world.infeasible[state.actions[~state.trains]] ^= True
    flipped = world.infeasible[state.actions[state.trains]]
    shared = np.isin(state.actions[state.trains], state.actions[~state.trains])
    world.infeasible[state.actions[state.trains][shared]] = ~flipped[shared]
    after = state.curious().log_prob_all(1), state.aimed().log_prob_all(1)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_aimed_policy_is_predicted_to_lose_alpha():
    world = small_world(np.random.default_rng(7))
    state = learner.Learner(world, 0.1, SETTINGS, np.random.default_rng(8))
    taken = state.actions[state.trains]
    feasible = surrogate.log_feasibility(world.scaled[taken], world.infeasible[taken], world.scaled)
    predicted = 1 - np.exp(feasible)
    plain = np.exp(state.curious().log_prob_all(1)[0]) @ predicted
    aimed = np.exp(state.aimed().log_prob_all(1)[0]) @ predicted
    assert plain > 0.1
    assert aimed == pytest.approx(0.1, abs=1e-4)
