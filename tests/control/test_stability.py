"""How much the policy moves without a row."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import drawn_world, finite_world
from tests.control.stability_by_definition import assert_bounds_the_definition
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


@pytest.mark.parametrize("drawn", [False, True])
def test_the_change_of_each_rows_own_weight(drawn):
    """Where the family has no constant: directly, and not below it."""
    compared = 0
    for seed in (0, 3, 5, 16, 36):
        rng = np.random.default_rng(seed)
        made = drawn_world(rng, rows=80, draws=3)[:2] if drawn else finite_world(rng, rows=80)[:1]
        found = tether.calibrate(*made, alpha=0.25, family="budgeted_clip(3)")
        if not np.isfinite(found.log_beta):
            continue
        assert_bounds_the_definition(found.stability, found)
        assert found.smoothness is None or found.smoothness == 1
        assert found.alpha < found.promise <= found.bound
        compared += 1
    assert compared >= 2


def test_betas_on_both_sides_of_one():
    """Beta is the last at which the safe policy proposes: the weights jump just above it."""
    log, proposals, *_ = drawn_world(np.random.default_rng(16), rows=150, draws=4)
    found = tether.calibrate(log, proposals, alpha=0.25)
    assert found.log_beta == LAST_LOG_BETA_OF_SAFE
    assert_bounds_the_definition(found.stability, found)


@pytest.mark.parametrize("seed", [12, 17])
def test_several_losses_move_beta_to_the_smallest_of_theirs(seed):
    rng = np.random.default_rng(seed)
    log, *_ = finite_world(rng, rows=40)
    harm = log.loss["loss"]
    losses = {"harm": harm, "delay": np.where(rng.random(40) < 0.1, 0.5, harm)}
    found = tether.calibrate(with_losses(log, losses), alpha={"harm": 0.3, "delay": 0.32})
    betas = found.log_beta_by_constraint.values()
    assert 0.05 < max(betas) - min(betas) < 0.2
    assert_bounds_the_definition(found.stability, found)


def with_losses(log, losses):
    """The same log with tables and other losses."""
    return tether.Log(
        losses,
        log.log_safe,
        log.log_optimized,
        log_safe_all=log.log_safe_all,
        log_optimized_all=log.log_optimized_all,
    )
