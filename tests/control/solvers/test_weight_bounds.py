"""Every weight, at every beta of an interval, lies between its bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.example_logs import random_problem
from tether.control.problem import pose
from tether.control.solvers.weight_bounds import certified, weight_bounds

FAMILIES = [tether.Clip(), tether.Mix(), tether.BudgetedClip(1), tether.BudgetedClip(5)]


@given(
    st.integers(0, 10_000),
    st.sampled_from(FAMILIES),
    st.sampled_from(["empirical", "analytic", 2.0]),
    st.floats(-6, 6),
    st.floats(0, 4),
)
@settings(max_examples=200, deadline=None)
def test_weights_stay_within_their_bounds(seed, family, test_weight, left, width):
    problem = random_problem(seed, family, test_weight)
    low, high, test = weight_bounds(problem, left, left + width)
    for log_beta in np.linspace(left, left + width, 9):
        rows, last = problem.log_weights(log_beta)
        assert (rows >= low - 1e-9).all()
        assert (rows <= high + 1e-9).all()
        assert last <= test + 1e-9


@given(st.integers(0, 10_000), st.sampled_from(FAMILIES), st.floats(-6, 6))
@settings(max_examples=60, deadline=None)
def test_at_a_point_the_bounds_meet(seed, family, log_beta):
    problem = random_problem(seed, family, "empirical")
    low, high, test = weight_bounds(problem, log_beta, log_beta)
    rows, last = problem.log_weights(log_beta)
    assert low == pytest.approx(rows)
    assert high == pytest.approx(rows)
    assert test == pytest.approx(last)


def test_smoothness_bounds_a_user_defined_family():
    class Slow(tether.Family):
        """Mix under another name, so that only its smoothness is known."""

        name, smoothness, normalized = "slow", 1.0, True
        log_kernel = tether.Mix().log_kernel
        log_density = tether.Mix().log_density

    for seed in range(12):
        problem = random_problem(seed, Slow(), "empirical")
        low, high, test = weight_bounds(problem, -1.0, 0.5)
        for log_beta in np.linspace(-1.0, 0.5, 7):
            rows, last = problem.log_weights(log_beta)
            assert (rows >= low - 1e-9).all()
            assert (rows <= high + 1e-9).all()
            assert last <= test + 1e-9
        exact = tether.calibrate(problem.log, alpha=0.41, family="mix", test_weight=3.0)
        slow = tether.calibrate(problem.log, alpha=0.41, family=Slow(), test_weight=3.0)
        assert slow.beta == pytest.approx(exact.beta, rel=1e-6, abs=1e-8)


def test_the_bounds_of_a_smoothness_are_reached():
    """A rare action that is not clipped while all others are: its density falls like 1/β."""

    class Renamed(tether.Family):
        """Clip without its own bounds."""

        name, smoothness = "renamed", 1.0
        log_kernel = tether.Clip().log_kernel

    safe = np.log([[1 - 1e-6, 1e-6]] * 2)
    optimized = safe + np.array([0.0, -5.0])
    log = tether.Log(
        np.zeros(2), safe[:, 1], optimized[:, 1], log_safe_all=safe, log_optimized_all=optimized
    )
    problem = pose(log, None, Renamed(), "empirical")
    low, high, _ = weight_bounds(problem, -2.0, -1.0)
    at_left, at_right = (problem.log_weights(log_beta)[0] for log_beta in (-2.0, -1.0))
    assert at_left - at_right == pytest.approx(np.ones(2), abs=1e-4)
    assert (high >= at_left).all()
    assert (low <= at_right).all()
    assert high == pytest.approx(at_left, abs=1e-4)
    assert low == pytest.approx(at_right, abs=1e-4)


def test_which_bounds_are_known():
    class Unknown(tether.Family):
        name = "unknown"
        log_kernel = tether.Clip().log_kernel

    class Stated(Unknown):
        smoothness = 2.0

    log = tether.Log(np.zeros(2), np.zeros(2), np.zeros(2))
    source = ["safe", "safe", "optimized", "optimized"]
    proposals = tether.Proposals(np.zeros(4), np.zeros(4), source=source)
    known = {
        family.name: certified(pose(log, proposals, family, "empirical"))
        for family in (tether.Clip(), tether.Mix(), tether.BudgetedClip(2), Unknown())
    }
    assert known == {"clip": True, "mix": True, "budgeted_clip(2)": True, "unknown": False}
    assert certified(pose(log, proposals, Stated(), "empirical"))
