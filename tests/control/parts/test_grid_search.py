"""A search with many intervals in each pass finds what the search one by one finds."""

from itertools import pairwise

import numpy as np
import pytest

from tests.scale import scaled
from tether.control.parts.grid_search import Search
from tether.control.solvers.certified_search import first_crossing


def in_passes(between, points):
    """The crossing that a `Search` finds, and its passes."""
    search, passes = Search(list(pairwise(points))), 0
    while wanted := search.wanted():
        search.take({each: between(*each) for each in wanted})
        passes += 1
    assert search.done
    return search.crossing, passes


def broken_line(rng):
    """A line with zeros over whole ranges, and the bound that its steepest slope gives."""
    knots = np.cumsum(rng.uniform(0.1, 1.5, size=8))
    heights = np.where(rng.random(8) < 0.6, 0.0, rng.uniform(-1.0, 0.2, size=8))
    heights[0] = min(heights[0], 0.0)
    steepest = np.abs(np.diff(heights) / np.diff(knots)).max() + 0.1

    def between(left, right):
        ends = np.interp([left, right], knots, heights)
        return float(ends.mean() + steepest * (right - left) / 2)

    return between, [knots[0], knots[3], knots[-1]]


def test_the_crossing_is_that_of_the_search_one_by_one():
    found = set()
    for seed in range(scaled(30)):
        between, points = broken_line(np.random.default_rng(seed))
        expected = first_crossing(between, points)
        crossing, passes = in_passes(between, points)
        assert passes <= 20
        found.add(expected is None)
        if expected is None:
            assert crossing == np.inf
        else:
            assert crossing == pytest.approx(expected, abs=1e-10)
    assert found == {False, True}


def test_a_function_that_is_zero_throughout_is_examined_in_few_passes():
    crossing, passes = in_passes(lambda left, right: right - left, [0.0, 10.0])
    assert crossing == np.inf
    assert passes <= 12


def test_a_search_that_stops_early_returns_a_number_up_to_which_all_passes():
    crossing, passes = in_passes(lambda left, right: right - left, [0.0, 1000.0])
    assert 10 < crossing < 1000
    assert passes <= 20


def test_what_remains_at_last_may_be_known_already():
    """The interval before the crossing is examined once more when those before it are certified."""

    def between(left, right):
        return np.inf if right > 0.7 else (right - left) - 0.0021

    crossing, _ = in_passes(between, [0.0, 1.0])
    assert crossing == pytest.approx(0.7, abs=1e-9)
