"""How much the policy moves without a row."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import drawn_world, finite_world, leave_one_out
from tether.control.families import LAST_LOG_BETA_OF_SAFE
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


def measured_and_direct(found):
    """The stated instability, and each row's weight at the beta without it, one by one."""
    problem, without = found._problem, leave_one_out(found)
    lo, hi = problem.search_range()
    rows, test = problem.log_weights(found.log_beta)
    betas = np.clip(without, lo, hi)
    moved = [problem.log_weights(float(beta))[0][i] for i, beta in enumerate(betas)]
    change = np.abs(np.exp(moved) - np.exp(rows)).sum() / (np.exp(rows).sum() + np.exp(test))
    return found.stability, change


@pytest.mark.parametrize("drawn", [False, True])
def test_the_change_of_each_rows_own_weight(drawn):
    """Where the family has no constant: directly, up to interpolation between quantiles."""
    errors = []
    for seed in (0, 3, 5, 16, 36, 37, 40, 41):
        rng = np.random.default_rng(seed)
        made = drawn_world(rng, rows=150, draws=3)[:2] if drawn else finite_world(rng, rows=150)[:1]
        found = tether.calibrate(*made, alpha=0.25, family="budgeted_clip(3)")
        if not np.isfinite(found.log_beta):
            continue
        stated, direct = measured_and_direct(found)
        assert stated == pytest.approx(direct, rel=0.15)
        assert found.smoothness is None or found.smoothness == 1
        assert found.alpha < found.promise <= found.bound
        errors.append(stated / direct - 1)
    assert len(errors) >= 3
    assert abs(np.mean(errors)) < 0.05


def test_betas_on_both_sides_of_one():
    """Beta is the last at which the safe policy proposes: the weights jump just above it."""
    log, proposals, *_ = drawn_world(np.random.default_rng(16), rows=150, draws=4)
    found = tether.calibrate(log, proposals, alpha=0.25)
    assert found.log_beta == LAST_LOG_BETA_OF_SAFE
    stated, direct = measured_and_direct(found)
    assert stated == pytest.approx(direct, rel=0.05)
