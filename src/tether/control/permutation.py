"""Exact conformal weights, by the likelihoods of all orders in which the data could have come."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.types import Floats
from tether._core.validate import log_probabilities

LARGEST = 16
"""The most points for which the sum over orders is computed: it doubles with each."""


def permutation_weights(log_densities: Any) -> Floats:
    """Probability that each of t + 1 points came last, given only the set of them.

    `log_densities[k, j]` is the log-density at point j of the policy that acted k-th; the last row
    is the policy to be deployed. The weight of point i sums the joint likelihood over every order
    that puts i last. Calibration replaces the earlier policies by their mixture, which needs no
    such sum; for one earlier policy the two agree exactly.

    >>> permutation_weights(np.log([[0.5, 0.5], [0.9, 0.3]])).round(2)
    array([0.75, 0.25])
    """
    table = log_probabilities("log_densities", log_densities, ndim=2, zero=True)
    points = len(table)
    if table.shape != (points, points):
        raise ValueError(f"log_densities must be square, got shape {table.shape}")
    if points > LARGEST:
        raise ValueError(f"log_densities has {points} points; at most {LARGEST} are possible")
    everything = (1 << points) - 1
    # log_sums[S]: the log of the sum, over all orders of the points in S, of the likelihood that
    # the first |S| policies produced them in that order.
    log_sums = np.full(everything + 1, -np.inf)
    log_sums[0] = 0.0
    for subset in range(1, everything + 1):
        policy = subset.bit_count() - 1
        if policy == points - 1:
            continue
        members = [point for point in range(points) if subset >> point & 1]
        rest = [subset ^ (1 << point) for point in members]
        log_sums[subset] = np.logaddexp.reduce(log_sums[rest] + table[policy, members])
    last = np.array([log_sums[everything ^ (1 << point)] for point in range(points)]) + table[-1]
    if np.isneginf(last).all():
        raise ValueError("log_densities gives every order of the points probability zero")
    weights = np.exp(last - last.max())
    return np.asarray(weights / weights.sum())
