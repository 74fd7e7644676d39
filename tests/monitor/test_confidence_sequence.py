import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.monitor.confidence_sequence import confidence_interval, deviation_bound

RATES = [0.75 / 2**j for j in range(24)]
SHARES = [1 / (j * (j + 1)) for j in range(1, 25)]


@settings(deadline=None)
@given(squares=st.floats(0, 1e9), error_probability=st.sampled_from([1e-6, 0.01, 0.05, 0.5]))
def test_the_bound_is_where_the_sum_reaches_its_threshold(squares, error_probability):
    error = float(deviation_bound(squares, error_probability))
    terms = [
        math.log(share / sum(SHARES)) + rate * error - (-math.log1p(-rate) - rate) * squares
        for share, rate in zip(SHARES, RATES, strict=True)
    ]
    reached = max(terms) + math.log(sum(math.exp(term - max(terms)) for term in terms))
    assert reached == pytest.approx(math.log(1 / error_probability), abs=1e-6)


@pytest.mark.parametrize("rate", RATES)
def test_each_exponential_is_a_supermartingale(rate):
    """The inequality behind it, for one step: every two-point x on 0 and 1 and every guess."""
    mean, guess = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101))
    cost = -math.log1p(-rate) - rate
    win = np.exp(rate * (1 - mean) - cost * (1 - guess) ** 2)
    lose = np.exp(rate * (0 - mean) - cost * (0 - guess) ** 2)
    assert (mean * win + (1 - mean) * lose <= 1 + 1e-12).all()


def test_more_spread_and_smaller_error_probability_reach_further():
    errors = deviation_bound(np.array([0.0, 1, 10, 1e3, 1e6]), 0.05)
    assert (np.diff(errors) > 0).all()
    assert (deviation_bound(np.array([0.0, 1, 10, 1e3, 1e6]), 0.01) > errors).all()


def test_the_interval_shrinks_and_stays_inside():
    seen = np.array([1, 10, 1e3, 1e5])
    lower, upper = confidence_interval(seen, 0.1 * seen, 0.09 * seen, 0.05)
    assert (lower >= 0).all()
    assert (upper <= 1).all()
    assert (np.diff(upper - lower) <= 0).all()
    assert upper[-1] - lower[-1] < 0.01
