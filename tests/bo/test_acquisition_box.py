import numpy as np
import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.sampling import SobolQMCNormalSampler
from scipy.integrate import quad
from scipy.stats import kstest

import tether
from tests.bo.gaussian_process import fitted
from tether.bo import AcquisitionBox


def wave(points):
    return np.sin(3 * points[:, 0]) + 0.3 * points[:, 0]


def test_one_dimension_agrees_with_brute_force():
    """The density integrates to one, draws follow it, and it nears the acquisition's own."""
    temperature, lower, upper = 0.5, -1.0, 2.0
    errors = []
    integral = quad(lambda x: np.exp(wave(np.array([[x]]))[0] / temperature), lower, upper)[0]
    for cells in (20, 200):
        box = AcquisitionBox(wave, [[lower], [upper]], cells=cells, temperature=temperature)
        fine = np.linspace(lower, upper, 20_000, endpoint=False)[:, None] + 0.5 * 3 / 20_000
        density = np.exp(box.log_prob(None, fine))
        assert np.isclose(density.mean() * 3, 1, atol=1e-9)
        errors.append(np.abs(density - np.exp(wave(fine) / temperature) / integral).max())
    assert errors[1] < 0.15 * errors[0] < 0.15
    drawn = box.sample(20_000, np.random.default_rng(0))
    assert drawn.shape == (20_000, 1)
    running = np.cumsum(density) / density.sum()
    ends = fine[:, 0] + 0.5 * 3 / 20_000
    assert kstest(drawn[:, 0], lambda x: np.interp(x, ends, running)).pvalue > 1e-3


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_two_dimensions_of_botorch_against_brute_force(temperature):
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
    acquisition = qLogExpectedImprovement(fitted(), best_f=0.5, sampler=sampler)
    box = AcquisitionBox(
        acquisition, torch.tensor([[0.0, 0.0], [1.0, 2.0]]), cells=(8, 6), temperature=temperature
    )
    across, along = (np.arange(8) + 0.5) / 8, (np.arange(6) + 0.5) / 3
    middles = np.array([[x, y] for x in across for y in along])
    direct = np.array([float(acquisition(torch.tensor(m[None])).detach()) for m in middles])
    chance = np.exp((direct - direct.max()) / temperature)
    chance /= chance.sum()
    assert np.allclose(np.exp(box.log_prob(None, middles)), chance * 48 / 2)
    drawn = box.sample(50_000, np.random.default_rng(1))
    cell = (drawn[:, 0] * 8).astype(int) * 6 + (drawn[:, 1] * 3).astype(int)
    seen, expected = np.bincount(cell, minlength=48), chance * len(drawn)
    rare = expected < 5
    seen = np.append(seen[~rare], seen[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    assert (np.abs(seen - expected) < 4.5 * np.sqrt(expected + 1)).all()
    within = np.column_stack([drawn[:, 0] * 8 % 1, drawn[:, 1] * 3 % 1])
    assert min(kstest(within[:, k], "uniform").pvalue for k in range(2)) > 1e-3


def test_the_edges_belong_to_the_box_and_nothing_beyond():
    box = AcquisitionBox(lambda points: np.zeros(len(points)), [[0.0, -1.0], [1.0, 1.0]], cells=3)
    corners = [[0.0, -1.0], [1.0, 1.0], [1.0, -1.0], [1.0 + 1e-9, 0.0], [0.5, -1.1]]
    expected = [-np.log(2)] * 3 + [-np.inf] * 2
    assert np.allclose(box.log_prob(None, corners), expected)


def test_cells_that_are_ruled_out_are_never_drawn():
    def right_half(points):
        return np.where(points[:, 0] > 0.5, 0.0, -np.inf)

    box = AcquisitionBox(right_half, [[0.0], [1.0]], cells=10)
    drawn = box.sample(50_000, np.random.default_rng(2))
    assert drawn.min() >= 0.5
    assert np.isfinite(box.log_prob(None, drawn)).all()
    assert box.log_prob(None, [[0.2]])[0] == -np.inf


def test_a_tethered_policy_of_a_box():
    """Two boxes, one calibration: what is drawn is what is scored, normalizer and all."""
    bounds = [[-3.0], [3.0]]
    safe = AcquisitionBox(lambda points: -(points[:, 0] ** 2) / 2, bounds, cells=60)
    optimized = AcquisitionBox(lambda points: points[:, 0], bounds, cells=60, temperature=0.5)
    rng = np.random.default_rng(4)
    actions = safe.sample(400, rng)
    log = tether.make_log(safe, optimized, None, actions, actions[:, 0] > 1.2)
    found = tether.calibrate(
        log, tether.make_proposals(safe, optimized, None, 2000, rng), alpha=0.3
    )
    policy = tether.Tethered(safe, optimized, found)
    fine = np.linspace(-3, 3, 6000, endpoint=False)[:, None] + 0.0005
    density = np.exp(policy.log_prob(None, fine))
    assert np.isclose(density.mean() * 6, 1, atol=0.02)
    drawn = policy.sample(20_000, rng)
    share, true = (drawn[:, 0] > 1.2).mean(), density[fine[:, 0] > 1.2].sum() * 0.001
    assert abs(share - true) < 0.02
    assert 0.12 < true < 0.35


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"bounds": [[0.0], [0.0]]}, ValueError, "lower ends below upper"),
        ({"bounds": [[0.0, 1.0]]}, ValueError, "two rows"),
        ({"bounds": [[0.0], [np.inf]]}, ValueError, "must be finite"),
        ({"cells": 0}, ValueError, "at least 1"),
        ({"cells": 2.5}, TypeError, "cells must be an integer"),
        ({"cells": (3, 3)}, TypeError, "one for each of 1 dimension"),
        ({"cells": 10**7}, ValueError, "AcquisitionPool"),
        ({"temperature": 0.0}, ValueError, "temperature must be above 0"),
        ({"acquisition": lambda points: np.full(len(points), -np.inf)}, ValueError, "every cell"),
    ],
)
def test_invalid_boxes_are_refused(arguments, error, message):
    given = {"acquisition": wave, "bounds": [[0.0], [1.0]], "cells": 4} | arguments
    with pytest.raises(error, match=message):
        AcquisitionBox(given.pop("acquisition"), given.pop("bounds"), **given)


def test_points_of_another_size_are_refused():
    box = AcquisitionBox(wave, [[0.0], [1.0]], cells=4)
    with pytest.raises(ValueError, match="2 coordinates but the box has 1"):
        box.log_prob(None, [[0.1, 0.2]])
