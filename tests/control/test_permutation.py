"""Exact weights, against the sum over all orders of the points."""

from itertools import permutations

import numpy as np
import pytest

import tether


def by_hand(table):
    """The definition: a sum over all orders of the points."""
    points = len(table)
    weights = np.zeros(points)
    for order in permutations(range(points)):
        weights[order[-1]] += np.exp(sum(table[k, order[k]] for k in range(points)))
    return weights / weights.sum()


def test_permutation_weights_by_hand():
    rng = np.random.default_rng(1)
    for points in (1, 2, 4, 6):
        table = rng.normal(size=(points, points)) - 3
        assert tether.control.permutation_weights(table) == pytest.approx(by_hand(table))
    shifted = tether.control.permutation_weights(table - 5000)
    assert shifted == pytest.approx(by_hand(table))


def test_bad_permutations():
    with pytest.raises(ValueError, match=r"must be square, got shape \(2, 3\)"):
        tether.control.permutation_weights(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="has 20 points; at most 16"):
        tether.control.permutation_weights(np.zeros((20, 20)))
    with pytest.raises(ValueError, match="every order of the points probability zero"):
        tether.control.permutation_weights(np.array([[-np.inf, -np.inf], [0.0, 0.0]]))
