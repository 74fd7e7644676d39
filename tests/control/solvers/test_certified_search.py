"""The first crossing of a function that is only known by upper bounds on intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.control.solvers.certified_search import first_crossing


@given(st.lists(st.floats(-2, 2), min_size=3, max_size=12), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_search_finds_the_first_crossing(heights, seed):
    """A broken line with slope at most 2, and the bound that this slope gives."""
    rng = np.random.default_rng(seed)
    knots = np.cumsum(rng.uniform(2.0, 4.0, size=len(heights)))
    # Peaks lower than the resolution may be passed over: none here.
    heights = np.round(np.minimum(np.array(heights), 1.0), 1) - 0.05
    heights[0] = -abs(heights[0]) - 0.1

    def height(t):
        return float(np.interp(t, knots, heights))

    def bound(left, right):
        return (height(left) + height(right)) / 2 + 2 * (right - left) / 2

    found = first_crossing(bound, [knots[0], knots[-1]])
    positive = np.flatnonzero(heights > 0)
    if len(positive) == 0:
        assert found is None
        return
    k = int(positive[0])
    share = -heights[k - 1] / (heights[k] - heights[k - 1])
    exact = knots[k - 1] + share * (knots[k] - knots[k - 1])
    assert found == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("limit", [20, 50, 300])
def test_a_search_that_stops_early_returns_the_end_of_what_is_certified(limit, monkeypatch):
    monkeypatch.setattr("tether.control.solvers.certified_search.MAX_INTERVALS", limit)
    certified, examined = [], []

    def bound(left, right):
        """A function that is −0.004 throughout, and a bound that certifies short intervals only."""
        value = -0.004 + (right - left)
        examined.append((left, right))
        if value <= 0:
            certified.append((left, right))
        return value

    found = first_crossing(bound, [0.0, 10.0])
    assert len(examined) > limit
    ends = [0.0, *(right for _, right in certified)]
    assert [left for left, _ in certified] == ends[:-1]  # without a gap from the first point on
    assert found == ends[-1] > 0


@pytest.mark.parametrize("limit", [2, 5, 9, 14])
def test_a_search_that_stops_early_returns_a_point_that_passes(limit, monkeypatch):
    monkeypatch.setattr("tether.control.solvers.certified_search.MAX_INTERVALS", limit)
    found = first_crossing(lambda left, right: right - 3.7 + (right - left), [0.0, 10.0])
    assert 0 <= found < 3.7


def test_a_bound_of_exactly_zero_passes_at_once():
    examined = []

    def bound(left, right):
        examined.append((left, right))
        return 0.0

    assert first_crossing(bound, [0.0, 1e6]) is None
    assert examined == [(0.0, 1e6)]


def test_a_crossing_at_the_start_and_at_a_jump():
    assert first_crossing(lambda left, right: right, [0.0, 1.0]) == pytest.approx(0.0, abs=1e-9)

    def jump(left, right):
        """−inf below 0.3 and +inf above."""
        return np.inf if right > 0.3 else -np.inf

    found = first_crossing(jump, [0.0, 1.0])
    assert found == pytest.approx(0.3, abs=1e-9)
    assert found <= 0.3


@pytest.mark.parametrize("root", [-7.3, -0.2, 0.0, 2.9])
def test_a_smooth_root_takes_few_points(root):
    points = []

    def bound(left, right):
        if left == right:
            points.append(left)
        return float(np.expm1(right - root)) + (right - left)

    found = first_crossing(bound, [-10.0, 10.0])
    assert root - 2e-11 <= found <= root
    assert len(points) <= 12


@pytest.mark.parametrize("steep", [1.0, 1e6, 1e250])
def test_a_root_beside_a_jump_is_located(steep):
    points = []

    def bound(left, right):
        if left == right:
            points.append(left)
        return 1e-9 * (right - 0.3) if right <= 0.3 else steep * (1 + right)

    found = first_crossing(bound, [0.0, 1.0])
    assert 0.3 - 2e-12 <= found <= 0.3
    assert len(points) <= 130
