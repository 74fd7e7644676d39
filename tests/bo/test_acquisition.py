"""Acquisition functions as policies: against brute force, BoTorch itself, and the promise."""

import numpy as np
import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.sampling import SobolQMCNormalSampler
from scipy.integrate import quad

import tether
from tether.bo import AcquisitionBox, AcquisitionPool, acquisition_values


@pytest.fixture(scope="module")
def acquisition():
    points = np.random.default_rng(1).random((12, 2))
    values = np.sin(5 * points[:, 0]) + points[:, 1]
    model = SingleTaskGP(
        torch.tensor(points),
        torch.tensor(values)[:, None],
        train_Yvar=torch.full((12, 1), 1e-3, dtype=torch.float64),
    )
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
    return qLogExpectedImprovement(model.eval(), best_f=0.5, sampler=sampler)


def directly(acquisition, points, temperature):
    """Probabilities from one call of BoTorch per point."""
    values = np.array([float(acquisition(torch.tensor(p[None])).detach()) for p in points])
    chance = np.exp((values - values.max()) / temperature)
    return chance / chance.sum()


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_pools_and_boxes_of_botorch_equal_single_calls(acquisition, temperature):
    candidates = np.random.default_rng(2).random((60, 2))
    pool = AcquisitionPool(acquisition, candidates, temperature)
    expected = directly(acquisition, candidates, temperature)
    assert np.allclose(np.exp(pool.log_prob_all(1)[0]), expected)
    again = AcquisitionPool.tether_load(pool.tether_save())
    assert np.array_equal(again.points([3, 3]), candidates[[3, 3]])
    many = np.random.default_rng(3).random((5000, 2))  # evaluated in several calls
    assert np.array_equal(acquisition_values(lambda rows: rows[:, 0], many), many[:, 0])
    corners = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    box = AcquisitionBox(acquisition, corners, cells=(8, 6), temperature=temperature)
    across, along = (np.arange(8) + 0.5) / 8, (np.arange(6) + 0.5) / 3
    centres = np.array([[x, y] for x in across for y in along])
    chance = directly(acquisition, centres, temperature)
    assert np.allclose(np.exp(box.log_prob(None, centres)), chance * 48 / 2)
    drawn = box.sample(50_000, np.random.default_rng(1))
    cell = (drawn[:, 0] * 8).astype(int) * 6 + (drawn[:, 1] * 3).astype(int)
    seen, mean = np.bincount(cell, minlength=48), chance * len(drawn)
    assert (np.abs(seen - mean) < 4.5 * np.sqrt(mean + 4)).all()


def test_the_density_of_a_box_integrates_to_one_and_nears_the_acquisition():
    def wave(points):
        return np.sin(3 * points[:, 0]) + 0.3 * points[:, 0]

    integral = quad(lambda x: np.exp(wave(np.array([[x]]))[0] / 0.5), -1, 2)[0]
    fine, errors = np.linspace(-1, 2, 20_000, endpoint=False)[:, None] + 0.5 * 3 / 20_000, []
    for cells in (20, 200):
        box = AcquisitionBox(wave, [[-1.0], [2.0]], cells=cells, temperature=0.5)
        density = np.exp(box.log_prob(None, fine))
        assert np.isclose(density.mean() * 3, 1, atol=1e-9)
        errors.append(np.abs(density - np.exp(wave(fine) / 0.5) / integral).max())
    assert errors[1] < 0.15 * errors[0] < 0.15
    right = AcquisitionBox(lambda p: np.where(p[:, 0] > 0.5, 0, -np.inf), [[0], [1]], cells=10)
    assert right.sample(9000, np.random.default_rng(2)).min() >= 0.5
    edges = right.log_prob(None, [[0.2], [0.5], [1.0], [1.0 + 1e-9]])
    assert np.exp(edges).round(9).tolist() == [0, 2, 2, 0]


def test_the_deployed_risk_over_many_worlds_is_at_most_alpha():
    """Past rounds enter through the mixture."""
    grid = np.linspace(-3, 3, 121)[:, None]
    safe = AcquisitionPool(lambda points: -(points[:, 0] ** 2) / 2, grid)
    optimized = AcquisitionPool(lambda points: points[:, 0], grid, temperature=0.5)
    costly, risks = (grid[:, 0] > 1.2).astype(float), []
    first = tether.Tethered(safe, optimized, 0.3)
    past = {"logged_by": tether.Mixture([safe, first], [40, 20]), "safe_share": 2 / 3}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        actions = np.concatenate([safe.sample(40, rng), first.sample(20, rng)])
        log = tether.make_log(safe, optimized, None, actions, costly[actions], **past)
        found = tether.calibrate(log, alpha=0.3, test_weight="analytic")
        risks.append(np.exp(tether.Tethered(safe, optimized, found).log_prob_all(1)[0]) @ costly)
    assert np.exp(optimized.log_prob_all(1)[0]) @ costly > 0.9
    assert 0.2 < np.mean(risks) < 0.3 + 3 * np.std(risks) / np.sqrt(len(risks))


def test_wrong_arguments_are_refused():
    def box(bounds=((0.0,), (1.0,)), cells=4, temperature=1.0, value=0.0):
        flat = AcquisitionBox(
            lambda p: p[:, 0] * 0 + value, bounds, cells=cells, temperature=temperature
        )
        return flat.log_prob(None, [[0.1, 0.2]])

    for name, wrong in (
        ("bounds", {"bounds": [[0.0], [0.0]]}), ("bounds", {"bounds": [[0.0], [np.inf]]}),
        ("cells", {"cells": 0}), ("cells", {"cells": 2.5}), ("cells", {"cells": 10**7}),
        ("temperature", {"temperature": 0.0}), ("values", {"value": np.nan}),
        ("all are -inf", {"value": -np.inf}), ("actions", {}),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=name):
            box(**wrong)
