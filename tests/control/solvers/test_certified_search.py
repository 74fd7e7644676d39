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


def test_search_gives_up_with_what_it_has_vouched_for(monkeypatch):
    monkeypatch.setattr("tether.control.solvers.certified_search.MAX_INTERVALS", 50)
    found = first_crossing(lambda left, right: -0.001 + (right - left), [0.0, 10.0])
    assert 0 < found < 10
