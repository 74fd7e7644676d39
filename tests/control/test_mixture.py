"""Exact weights by the sum over all orders of points, and how close mixtures come to them."""

from itertools import permutations

import numpy as np
import pytest

import tether


def test_mixture_is_the_weighted_average():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(7, 3))
    counts = np.array([5, 0, 20])
    direct = np.log(np.exp(table) @ (counts / counts.sum()))
    assert tether.control.mixture_log_density(table, counts) == pytest.approx(direct)
    assert tether.control.mixture_log_density(list(table.T), counts) == pytest.approx(direct)
    far = tether.control.mixture_log_density(np.array([[-9000.0, -9001.0], [-np.inf, 3.0]]), [1, 1])
    assert far == pytest.approx([-9000 + np.log((1 + np.exp(-1)) / 2), 3 - np.log(2)])


@pytest.mark.parametrize(
    ("columns", "counts", "named"),
    [
        *((np.zeros((3, 2)), each, "counts") for each in ([1], [0, 0], [1, -1], [1, np.inf])),
        ([np.zeros(3), np.zeros(2)], [1, 1], r"log_columns\[1\] has 2 rows"),
        *(([], [1], "log_columns"), (np.full((1, 2), np.nan), [1, 1], "log_columns")),
    ],
)
def test_bad_mixtures(columns, counts, named):
    with pytest.raises(ValueError, match=named):
        tether.control.mixture_log_density(columns, counts)


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
    for wrong, message in (
        (np.zeros((2, 3)), "must be square"),
        (np.zeros((20, 20)), "has 20 points; at most 16"),
        (np.array([[-np.inf, -np.inf], [0.0, 0.0]]), "every order of the points probability zero"),
    ):
        with pytest.raises(ValueError, match=message):
            tether.control.permutation_weights(wrong)
