"""Bets that are averaged: the average itself, and how often a true claim is refuted."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tether._core.promises import beyond_chance, log_average


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_the_average_is_that_of_the_capitals(capitals):
    expected = math.log(math.fsum(each / len(capitals) for each in capitals))
    np.testing.assert_allclose(log_average(np.log(capitals)), expected, rtol=1e-12, atol=1e-12)


def test_capital_may_be_lost_or_beyond_numbers():
    assert log_average([-np.inf, -np.inf]) == -np.inf
    assert beyond_chance([-np.inf, 2000.0], 1e-6)
    assert not beyond_chance([-np.inf], 0.5)


def test_a_true_claim_is_refuted_with_at_most_the_probability_of_a_false_alarm():
    """All sequences of eight throws of a fair coin, and bets on heads with several stakes."""
    stakes = np.array([0.1, 0.5, 0.9, 0.99])
    for false_alarm in (0.3, 0.05, 0.01):
        refuted = 0
        for throws in itertools.product([-1, 1], repeat=8):
            with np.errstate(divide="ignore"):
                capital = np.log1p(np.multiply.outer(stakes, throws)).sum(axis=1)
            refuted += beyond_chance(capital, false_alarm)
        assert 0 < refuted / 2**8 <= false_alarm
