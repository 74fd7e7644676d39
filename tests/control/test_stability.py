"""How much the policy moves without a row."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import finite_world, leave_one_out
from tether.control import stability
from tether.control.stability import smooth_instability


def test_infinite_betas_and_betas_of_zero_compare():
    reach = (-1.0, 2.0)
    share = np.array([0.5, 0.5])
    assert smooth_instability(np.inf, np.array([np.inf, np.inf]), share, 1.0, reach) == 0
    assert smooth_instability(np.inf, np.array([2.0, 3.0]), share, 1.0, reach) == 0
    expected = 0.5 * (np.exp(2 * 3.0) - 1)
    assert smooth_instability(np.inf, np.array([-np.inf, 2.0]), share, 2.0, reach) == (
        pytest.approx(expected)
    )
    endless = (-np.inf, np.inf)
    assert smooth_instability(np.inf, np.array([np.inf, 0.0]), share, 1.0, endless) == np.inf
    assert (
        smooth_instability(np.inf, np.array([np.inf, 0.0]), np.array([1.0, 0.0]), 1.0, endless) == 0
    )


@pytest.mark.parametrize(("points", "error"), [(None, 0.15), (257, 1e-3)])
def test_the_change_of_each_rows_own_weight(monkeypatch, points, error):
    """Where the family has no constant: each row's weight at the beta without it, directly.

    Weights are interpolated between few betas, and the error vanishes with more of them.
    """
    if points is not None:
        monkeypatch.setattr(stability, "WEIGHT_POINTS", points)
    log, *_ = finite_world(np.random.default_rng(36), rows=150)
    found = tether.calibrate(log, alpha=0.25, family="budgeted_clip(3)")
    problem, without = found._problem, leave_one_out(found)
    lo, hi = problem.search_range()
    rows, test = problem.log_weights(found.log_beta)
    moved = [problem.log_weights(float(np.clip(without[i], lo, hi)))[0][i] for i in range(len(log))]
    change = np.abs(np.exp(moved) - np.exp(rows)).sum() / (np.exp(rows).sum() + np.exp(test))
    assert found.stability == pytest.approx(change, rel=error)
    assert found.smoothness > 0
    assert found.alpha < found.promise <= found.bound
