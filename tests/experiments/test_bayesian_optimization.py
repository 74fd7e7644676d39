"""Bayesian optimization in small, and the Townsend function against its published optimum."""

import warnings

import numpy as np
import pytest

import tether
from tether import bo

with warnings.catch_warnings():  # what BoTorch imports warns of what torch deprecates
    warnings.simplefilter("ignore")
    import botorch  # noqa: F401

from experiments.bayesian_optimization import runs, townsend


def test_past_rounds_enter_through_their_mixture():
    """The calibration's weights are those of the mixture of what was deployed, by brute force."""
    settings = {"proposals": 500}
    rng = np.random.default_rng(0)
    points = np.linspace(-3, 3, 41)[:, None]
    safe = bo.AcquisitionPool(lambda rows: -(rows[:, 0] ** 2) / 2, points)
    optimized = bo.AcquisitionPool(lambda rows: rows[:, 0], points)
    past = tether.Tethered(safe, optimized, 0.5)
    costly = points[:, 0] > 1
    held = [safe.sample(30, rng), past.sample(30, rng)]
    found = runs.calibrate(settings, 0.4, safe, optimized, [safe, past], held, costly, rng)
    p, q = np.exp(safe.log_prob_all(1)[0]), np.exp(optimized.log_prob_all(1)[0])
    half = np.minimum(q, 0.5 * p)
    mix = (p + half / half.sum()) / 2
    actions = np.concatenate(held)
    kernel = np.minimum(q, found.beta * p) / mix
    loss = costly[actions].astype(float)
    risk = (kernel[actions] @ loss + kernel.max()) / (kernel[actions].sum() + kernel.max())
    assert found.exists
    assert risk == pytest.approx(found.binding.risk, rel=1e-6)
    assert 0.39 < risk <= 0.4 * (1 + 1e-6) or found.beta == np.inf


def test_the_published_optimum():
    at = np.array([townsend.OPTIMUM])
    assert townsend.objective(at)[0] == pytest.approx(2.0239884, abs=1e-6)
    assert townsend.feasible(at * 0.9999)[0]
    spread = np.random.default_rng(0).uniform(-3, 3, (200_000, 2))
    inside = townsend.feasible(spread)
    assert townsend.objective(spread[inside]).max() <= 2.0239884 + 1e-6
    assert inside.mean() == pytest.approx(0.363, abs=0.005)
