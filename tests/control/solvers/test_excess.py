"""The condition as a function of log beta, with bounds on intervals."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.example_logs import random_problem
from tether.control.constraint import Constraint
from tether.control.solvers.excess import Excess

FAMILIES = [tether.Clip(), tether.Mix(), tether.BudgetedClip(1), tether.BudgetedClip(5)]


@given(st.integers(0, 10_000), st.sampled_from(FAMILIES), st.floats(-4, 4), st.floats(0, 3))
@settings(max_examples=60, deadline=None)
def test_the_excess_stays_within_its_bound(seed, family, left, width):
    problem = random_problem(seed, family, "empirical")
    excess = Excess(problem, Constraint("loss", 0.3, 1.0))
    bounds = {
        without: excess.between(left, left + width, without) for without in (None, "below", "above")
    }
    for log_beta in np.linspace(left, left + width, 7):
        assert excess(log_beta) <= bounds[None] + 1e-9
        each = excess.without_each(log_beta)
        if bounds["below"] <= 0:  # then no single row can be missed
            assert (each <= 1e-9).all()
