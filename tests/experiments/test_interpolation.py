"""Accepted draws follow the tethered density, at the acceptance that was expected."""

import pytest
from experiments.interpolation.__main__ import Exact
from scipy.stats import norm

import tether

SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(2.0, 1.0)


def test_the_integral_is_the_overlap_at_beta_one():
    exact = Exact(SAFE, OPTIMIZED, 1.0)
    assert exact.acceptance == pytest.approx(2 * norm.cdf(-1), abs=1e-6)
    assert exact.distance(exact.safe) == pytest.approx(exact.distance(exact.optimized))
