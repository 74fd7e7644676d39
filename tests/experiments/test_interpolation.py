"""Accepted draws follow the tethered density, at the acceptance that was expected."""

import numpy as np
import pytest
from experiments.interpolation.__main__ import Exact, draws
from scipy.stats import kstest, norm

import tether

SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(2.0, 1.0)


def test_the_integral_is_the_overlap_at_beta_one():
    exact = Exact(SAFE, OPTIMIZED, 1.0)
    assert exact.acceptance == pytest.approx(2 * norm.cdf(-1), abs=1e-6)
    assert exact.distance(exact.safe) == pytest.approx(exact.distance(exact.optimized))


@pytest.mark.parametrize(("beta", "proposer"), [(0.05, "safe"), (20.0, "optimized")])
def test_what_was_rejected_is_the_rest_of_the_proposals(beta, proposer):
    taken, rejected, who = draws(SAFE, OPTIMIZED, beta, 5_000, np.random.default_rng(0))
    assert who == proposer
    exact = Exact(SAFE, OPTIMIZED, beta)
    assert kstest(taken, exact.distribution).pvalue > 1e-3
    every = np.concatenate([taken, rejected])  # together they are plain draws of the proposer
    assert kstest(every, norm(0 if who == "safe" else 2, 1).cdf).pvalue > 1e-3
