"""The condition as a function of log beta, with bounds on intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.example_logs import random_problem
from tether.control.constraint import Constraint
from tether.control.problem import pose
from tether.control.solvers.excess import Excess, _log_less

FAMILIES = [tether.Clip(), tether.Mix(), tether.BudgetedClip(1), tether.BudgetedClip(5)]


@given(st.integers(0, 10_000), st.sampled_from(FAMILIES), st.floats(-4, 4), st.floats(0, 3))
@settings(max_examples=100, deadline=None)
def test_the_excess_stays_within_its_bound(seed, family, left, width):
    """With all rows, without the heaviest row below alpha, and without the heaviest above."""
    problem = random_problem(seed, family, "empirical")
    excess = Excess(problem, Constraint("loss", 0.3, 1.0))
    loss = problem.log.loss["loss"]
    bounds = {
        without: excess.between(left, left + width, without) for without in (None, "below", "above")
    }
    for log_beta in np.linspace(left, left + width, 7):
        rows, test = problem.log_weights(log_beta)
        own = np.abs(loss - 0.3) * np.exp(rows)
        above, below = own[loss > 0.3], own[loss < 0.3]
        positive, negative = above.sum() + 0.7 * np.exp(test), below.sum()
        assert np.log(positive / negative) == pytest.approx(excess(log_beta), abs=1e-8)
        assert np.log(positive / negative) <= bounds[None] + 1e-8
        rest = negative - below.max(initial=0.0)
        if rest > 1e-12 * negative:  # else only rounding is left, and the bound is infinite
            assert np.log(positive / rest) <= bounds["below"] + 1e-8
        rest = positive - above.max(initial=0.0)
        assert np.log(rest / negative) <= bounds["above"] + 1e-8


@given(st.integers(0, 10_000), st.sampled_from(FAMILIES), st.floats(-4, 4))
@settings(max_examples=60, deadline=None)
def test_leaving_out_each_row_in_turn(seed, family, log_beta):
    problem = random_problem(seed, family, "empirical")
    excess = Excess(problem, Constraint("loss", 0.3, 1.0))
    rows, test = problem.log_weights(log_beta)
    signed = (problem.log.loss["loss"] - 0.3) * np.exp(rows)
    expected = signed.sum() + 0.7 * np.exp(test) - signed
    values = excess.without_each(log_beta)
    clear = np.abs(expected) > 1e-6 * np.abs(signed).sum()
    assert (np.sign(values[clear]) == np.sign(expected[clear])).all()


def test_a_condition_without_a_row_below_alpha_fails():
    log = tether.Log([1.0, 0.5], np.zeros(2), np.zeros(2), context=[0, 1])
    source = ["safe", "optimized"] * 2
    proposals = tether.Proposals(np.zeros(4), np.zeros(4), context=[0, 0, 1, 1], source=source)
    excess = Excess(pose(log, proposals, tether.Clip(), 1.0), Constraint("loss", 0.3, 1.0))
    assert excess(0.0) == np.inf
    one = tether.Log([1.0, 0.0], np.zeros(2), np.zeros(2), context=[0, 1])
    excess = Excess(pose(one, proposals, tether.Clip(), 1.0), Constraint("loss", 0.3, 1.0))
    assert np.isfinite(excess(0.0))
    assert excess.between(0.0, 0.0, "below") == np.inf


def test_a_sum_without_its_only_part_is_nothing_but_rounding():
    assert _log_less(0.0, -1e-15) == -np.inf
    assert _log_less(0.0, 1e-16) == -np.inf
    assert _log_less(np.log(3.0), np.log(2.0)) == pytest.approx(0.0)
