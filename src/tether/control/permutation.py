"""Exact conformal weights, from the likelihood of every order of the points."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tether._core.arrays import Floats
from tether._core.validate import log_probabilities

MAX_POINTS = 16
"""The most points for which the sum over orders is computed; each doubles its cost."""


def permutation_weights(log_densities: ArrayLike) -> Floats:
    """Probability that each of t + 1 points came last, given the set of points but not their order.

    The weight of point i sums the joint likelihood over every order that puts i last. Calibration
    replaces the earlier policies by their mixture, which needs no such sum; for one earlier policy
    the two agree exactly.

    Parameters
    ----------
    log_densities : array_like
        A square table: entry (k, j) is the log-density at point j of the policy that acted k-th.
        The last row is the policy to be deployed.

    Returns
    -------
    ndarray of float
        One weight per point; they sum to one.

    Raises
    ------
    TypeError, ValueError
        If the table is not square, has more than 16 points, or gives every order probability zero.

    References
    ----------
    Conformal Policy Control, ICML 2026.

    Examples
    --------
    >>> permutation_weights(np.log([[0.5, 0.5], [0.9, 0.3]])).round(2)
    array([0.75, 0.25])
    """
    table = log_probabilities("log_densities", log_densities, ndim=2, zero=True)
    points = len(table)
    if table.shape != (points, points):
        raise ValueError(f"log_densities must be square, got shape {table.shape}")
    if points > MAX_POINTS:
        raise ValueError(f"log_densities has {points} points; at most {MAX_POINTS} are possible")
    all_points = (1 << points) - 1
    # log_sums[S]: the log of the sum, over all orders of the points in S, of the likelihood that
    # the first |S| policies produced them in that order.
    log_sums = np.full(all_points + 1, -np.inf)
    log_sums[0] = 0.0
    for subset in range(1, all_points + 1):
        policy = subset.bit_count() - 1
        if policy == points - 1:
            continue
        members = [point for point in range(points) if subset >> point & 1]
        without_one = [subset ^ (1 << point) for point in members]
        log_sums[subset] = np.logaddexp.reduce(log_sums[without_one] + table[policy, members])
    last = np.array([log_sums[all_points ^ (1 << point)] for point in range(points)]) + table[-1]
    if np.isneginf(last).all():
        raise ValueError("log_densities gives every order of the points probability zero")
    weights = np.exp(last - last.max())
    return np.asarray(weights / weights.sum())
