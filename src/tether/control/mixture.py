"""Logs of several policies: the density of their mixture, and the exact weights it replaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tether._core.arrays import Floats
from tether._core.validate import floats, log_probabilities, reject, same_length

MAX_POINTS = 16  # the most points for which the sum over orders is computed; each doubles its cost


def mixture_log_density(log_columns: ArrayLike | Sequence[ArrayLike], counts: ArrayLike) -> Floats:
    """Log-density of the mixture of several policies, each weighted by the rows it produced.

    It is what `Log` and `Proposals` take as `log_mix`.

    Parameters
    ----------
    log_columns : array_like or sequence of array_like
        The log-density of every row under every policy that was deployed, with its normalizing
        constant: a table of rows × policies, or a list with one column per policy.
    counts : array_like
        How many rows each policy produced.

    Examples
    --------
    >>> mixture_log_density([np.log([0.2, 0.8]), np.log([0.6, 0.4])], counts=[30, 10]).round(3)
    array([-1.204, -0.357])
    """
    if isinstance(log_columns, (list, tuple)):
        columns = [floats(f"log_columns[{k}]", column) for k, column in enumerate(log_columns)]
        for k, column in enumerate(columns):
            same_length(f"log_columns[{k}]", column, "log_columns[0]", len(columns[0]))
        log_columns = np.column_stack(columns) if columns else np.empty((0, 0))
    table = log_probabilities("log_columns", log_columns, ndim=2, zero=True)
    weights = floats("counts", counts)
    same_length("counts", weights, "log_columns (its columns)", table.shape[1])
    if not (weights.min() >= 0 and 0 < weights.sum() < np.inf):
        bad = ~((weights >= 0) & (weights < np.inf))
        reject("counts", weights, bad if bad.any() else ~bad, "counts of at least 0, not all 0")
    with np.errstate(divide="ignore"):
        log_shares = np.log(weights / weights.sum())
    return np.asarray(np.logaddexp.reduce(table + log_shares, axis=1))


def permutation_weights(log_densities: ArrayLike) -> Floats:
    """Probability that each of t + 1 points came last, given the set of points but not their order.

    The weight of point i sums the joint likelihood over every order that puts i last. Calibration
    uses the mixture of the earlier policies instead, which for one of them is exactly the same.

    Parameters
    ----------
    log_densities : array_like
        A square table: entry (k, j) is the log-density at point j of the policy that acted k-th.
        The last row is the policy to be deployed.

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
    bits, every = 1 << np.arange(points), (1 << points) - 1
    # log_sums[S]: the log of the sum, over all orders of the points in S, of the likelihood that
    # the first |S| policies produced them in that order.
    log_sums = np.full(every + 1, -np.inf)
    log_sums[0] = 0.0
    for subset in range(1, every):
        members, policy = np.flatnonzero(subset & bits), subset.bit_count() - 1
        without_one = log_sums[subset ^ bits[members]]
        log_sums[subset] = np.logaddexp.reduce(without_one + table[policy, members])
    last = log_sums[every ^ bits] + table[-1]
    if np.isneginf(last).all():
        raise ValueError("log_densities gives every order of the points probability zero")
    weights = np.exp(last - last.max())
    return np.asarray(weights / weights.sum())
