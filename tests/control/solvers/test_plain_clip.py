"""Plain sums bound the condition as sums in log space do, and step aside where floats end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.control.constraint import Constraint
from tether.control.problem import pose
from tether.control.solvers.excess import Excess


def table_problem(seed: int, *, far: float = 1.0, mixed: bool = False, test_weight="empirical"):
    rng = np.random.default_rng(seed)
    rows, actions = 30, 4
    safe = rng.normal(size=(rows, actions))
    optimized = safe + far * rng.normal(size=(rows, actions))
    optimized[rng.random(optimized.shape) < 0.1] = -np.inf
    optimized[:, 0] = 0.0
    for table in (safe, optimized):
        table -= np.logaddexp.reduce(table, axis=1)[:, None]
    mixture = np.logaddexp(safe, optimized) - np.log(2)
    taken = (np.arange(rows), rng.integers(actions, size=rows))
    loss = rng.choice([0.0, 0.1, 0.6, 1.0], size=rows)
    mixes = {"log_mix": mixture[taken], "log_mix_all": mixture} if mixed else {}
    log = tether.Log(
        loss, safe[taken], optimized[taken], log_safe_all=safe, log_optimized_all=optimized, **mixes
    )
    return pose(log, None, tether.Clip(), test_weight)


@given(
    seed=st.integers(0, 10**6),
    ends=st.tuples(st.floats(-150, 150), st.floats(0, 20)),
    without=st.sampled_from([None, "below", "above"]),
    mixed=st.booleans(),
    test_weight=st.sampled_from(["empirical", 3.0]),
)
def test_plain_sums_are_those_of_log_space(seed, ends, without, mixed, test_weight):
    problem = table_problem(seed, mixed=mixed, test_weight=test_weight)
    excess = Excess(problem, Constraint("loss", 0.1, 1.0))
    left, right = ends[0], ends[0] + ends[1]
    assert excess.plain is not None
    assert excess.plain.fits(left, right)
    found = excess.between(left, right, without)
    excess.plain = None
    assert found == pytest.approx(excess.between(left, right, without), abs=1e-9)


def test_numbers_outside_the_range_of_floats_stay_in_log_space():
    near, far = table_problem(0), table_problem(0, far=300.0)
    constraint = Constraint("loss", 0.1, 1.0)
    assert Excess(far, constraint).plain is None
    plain = Excess(near, constraint).plain
    assert plain is not None
    assert not plain.fits(-201.0, 0.0)
    assert not plain.fits(0.0, 201.0)
