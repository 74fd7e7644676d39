"""Goodness of fit: whether draws come from the density that a policy states."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tether.policies.normalizer import density_with_error

LEVEL = 1e-3
"""The chance that a right sampler fails one whole test, over all its seeds and betas."""


def fits(p_values):
    """No p-value too small for their number, and all of them together look uniform."""
    p_values = np.asarray(p_values)
    assert p_values.min() > LEVEL / (2 * len(p_values)), p_values.min()
    if len(p_values) >= 8:
        assert stats.kstest(p_values, "uniform", alternative="greater").pvalue > LEVEL / 2


def chi_square(actions, probabilities):
    """P-value of counts of actions 0, 1, … against their probabilities; rare ones are pooled."""
    counts = np.bincount(actions, minlength=len(probabilities))
    expected = probabilities * len(actions)
    order = np.argsort(expected)
    rare = order[np.cumsum(expected[order]) < 5]
    common = np.setdiff1d(order, rare)
    counts = np.append(counts[common], counts[rare].sum())
    expected = np.append(expected[common], expected[rare].sum())
    if expected[-1] < 1e-9 * len(actions):
        assert counts[-1] == 0
        counts, expected = counts[:-1], expected[:-1]
    if len(counts) == 1:
        return 0.5
    return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue


def cumulative(log_density, low=-12.0, high=14.0, points=20_001):
    """The distribution function of a density on a line, and its total mass."""
    grid = np.linspace(low, high, points)
    density = np.exp(log_density(grid))
    steps = np.diff(grid) * (density[1:] + density[:-1]) / 2
    reached = np.append(0.0, np.cumsum(steps))
    return (lambda x: np.interp(x, grid, reached / reached[-1])), reached[-1]


def score_error(policy, contexts, actions):
    """The standard error of a tethered policy's log_prob."""
    scores = [each.log_prob(contexts, actions) for each in (policy.safe, policy.optimized)]
    found = policy.normalizer(contexts)
    return density_with_error(policy.family, *scores, policy.log_beta, found)[1]
