"""Bounds that hold: every weight, at every beta of an interval, lies between them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.test_contextual import drawn_world, finite_world
from tether.control.constraint import Constraint
from tether.control.problem import pose
from tether.control.solvers.certified_search import first_crossing
from tether.control.solvers.excess import Excess
from tether.control.solvers.weight_bounds import weight_bounds

FAMILIES = [tether.Clip(), tether.Mix(), tether.BudgetedClip(1), tether.BudgetedClip(5)]


def some_problem(seed, family, test_weight):
    rng = np.random.default_rng(seed)
    if family.name == "mix" and test_weight == "analytic":
        test_weight = "empirical"
    if seed % 3 == 0:
        log, proposals, *_ = drawn_world(rng, rows=12)
    elif seed % 3 == 1:
        log, *_ = finite_world(rng, rows=12, mixed=test_weight != "analytic")
        proposals = None
    else:
        log, proposals, *_ = drawn_world(rng, rows=12)
        log = tether.Log(log.loss, log.log_safe, log.log_optimized)
        proposals = tether.Proposals(proposals.log_safe, proposals.log_optimized)
    return pose(log, proposals, family, test_weight)


@given(
    st.integers(0, 10_000),
    st.sampled_from(FAMILIES),
    st.sampled_from(["empirical", "analytic", 2.0]),
    st.floats(-6, 6),
    st.floats(0, 4),
)
@settings(max_examples=200, deadline=None)
def test_weights_stay_within_their_bounds(seed, family, test_weight, left, width):
    problem = some_problem(seed, family, test_weight)
    low, high, test = weight_bounds(problem, left, left + width)
    for log_beta in np.linspace(left, left + width, 9):
        rows, last = problem.log_weights(log_beta)
        assert (rows >= low - 1e-9).all()
        assert (rows <= high + 1e-9).all()
        assert last <= test + 1e-9


@given(st.integers(0, 10_000), st.sampled_from(FAMILIES), st.floats(-6, 6))
@settings(max_examples=60, deadline=None)
def test_at_a_point_the_bounds_meet(seed, family, log_beta):
    problem = some_problem(seed, family, "empirical")
    low, high, test = weight_bounds(problem, log_beta, log_beta)
    rows, last = problem.log_weights(log_beta)
    assert low == pytest.approx(rows)
    assert high == pytest.approx(rows)
    assert test == pytest.approx(last)


@given(st.integers(0, 10_000), st.sampled_from(FAMILIES), st.floats(-4, 4), st.floats(0, 3))
@settings(max_examples=60, deadline=None)
def test_the_excess_stays_within_its_bound(seed, family, left, width):
    problem = some_problem(seed, family, "empirical")
    excess = Excess(problem, Constraint("loss", 0.3, 1.0))
    bounds = {
        without: excess.between(left, left + width, without) for without in (None, "below", "above")
    }
    for log_beta in np.linspace(left, left + width, 7):
        assert excess(log_beta) <= bounds[None] + 1e-9
        each = excess.without_each(log_beta)
        if bounds["below"] <= 0:  # then no single row can be missed
            assert (each <= 1e-9).all()


def test_smoothness_bounds_a_family_of_ones_own():
    class Slow(tether.Family):
        """Mix under another name, so that only its smoothness is known."""

        name, smoothness, normalized = "slow", 1.0, True
        log_kernel = tether.Mix().log_kernel
        log_density = tether.Mix().log_density

    for seed in range(12):
        problem = some_problem(seed, Slow(), "empirical")
        low, high, test = weight_bounds(problem, -1.0, 0.5)
        for log_beta in np.linspace(-1.0, 0.5, 7):
            rows, last = problem.log_weights(log_beta)
            assert (rows >= low - 1e-9).all()
            assert (rows <= high + 1e-9).all()
            assert last <= test + 1e-9
        exact = tether.calibrate(problem.log, alpha=0.4, family="mix", test_weight=3.0)
        slow = tether.calibrate(problem.log, alpha=0.4, family=Slow(), test_weight=3.0)
        assert slow.beta == pytest.approx(exact.beta, rel=1e-6, abs=1e-8)


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
