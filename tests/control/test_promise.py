"""The promise: how much beta moves without a row, and what follows for the expected loss."""

import numpy as np
import pytest

import tether
from tests.control import direct_formulas
from tests.control.example_logs import (
    calibrated,
    finite_world,
    gaussian_columns,
    leave_one_out,
    log_and_proposals,
)
from tether.control.constraint import Constraint
from tether.control.promise import instability, promised_loss


def test_promise_follows_from_stability():
    rng = np.random.default_rng(34)
    made = gaussian_columns(rng, 400, 100)
    found = tether.calibrate(*log_and_proposals(made, False), alpha=0.1)
    assert 0 < found.stability < 0.1
    assert found.promise == pytest.approx(0.1 + 0.9 * found.stability)
    share, _ = found._problem.shares(found.log_beta)
    betas = np.exp(leave_one_out(found))
    slow = sum(
        s * (max(found.beta / b, b / found.beta) - 1) for s, b in zip(share, betas, strict=True)
    )
    assert found.stability == pytest.approx(slow)


def test_stability_shrinks_with_more_rows():
    rng = np.random.default_rng(35)
    sizes = (100, 1000, 10_000)
    found = [
        tether.calibrate(*log_and_proposals(gaussian_columns(rng, rows, 50), False), alpha=0.12)
        for rows in sizes
    ]
    stabilities = [each.stability for each in found]
    assert stabilities[0] > stabilities[1] > stabilities[2]


def test_infinite_betas_and_betas_of_zero_compare():
    reach = (-1.0, 2.0)
    share = np.array([0.5, 0.5])
    assert instability(np.inf, np.array([np.inf, np.inf]), share, 1.0, reach) == 0
    assert instability(np.inf, np.array([2.0, 3.0]), share, 1.0, reach) == 0
    expected = 0.5 * (np.exp(2 * 3.0) - 1)
    assert instability(np.inf, np.array([-np.inf, 2.0]), share, 2.0, reach) == (
        pytest.approx(expected)
    )
    endless = (-np.inf, np.inf)
    assert instability(np.inf, np.array([np.inf, 0.0]), share, 1.0, endless) == np.inf
    assert instability(np.inf, np.array([np.inf, 0.0]), np.array([1.0, 0.0]), 1.0, endless) == 0


def test_the_promised_loss():
    """α + max(α, B − α)·ε, at most B, and B where no beta exists."""
    low, high = Constraint("loss", 0.1, 1.0), Constraint("loss", 1.5, 2.0)
    assert promised_loss(low, 0.2, exists=True) == pytest.approx(0.1 + 0.9 * 0.2)
    assert promised_loss(high, 0.2, exists=True) == pytest.approx(1.5 + 1.5 * 0.2)
    assert promised_loss(high, 9.0, exists=True) == 2.0
    assert promised_loss(low, 0.0, exists=False) == 1.0


def test_curve_is_the_risk():
    found, made = calibrated()
    curve = found.curve(points=100)
    assert len(curve.beta) <= 101
    assert np.all(np.diff(curve.log_beta) > 0)
    assert curve.risk == pytest.approx(direct_formulas.risk(made, curve.log_beta).astype(float))
    assert found.log_beta in curve.log_beta
    with pytest.raises(ValueError, match=r"constraint must be one of \['loss'\], got 'harm'"):
        found.curve("harm")


def test_budgeted_family_uses_its_measured_smoothness():
    log, *_ = finite_world(np.random.default_rng(36), rows=150)
    found = tether.calibrate(log, alpha=0.25, family="budgeted_clip(3)")
    assert found.smoothness > 1
    assert found.alpha <= found.promise <= found.bound


def test_a_row_with_the_largest_ratio_of_the_draws_is_covered():
    log = tether.Log(np.zeros(4), np.zeros(4), [0.5, 1.0, 1.5, -np.inf])
    found = tether.calibrate(log, tether.Proposals(np.zeros(2), [0.0, 1.0]), alpha=0.5)
    assert found.rows_beyond_draws == 1
    assert tether.calibrate(log, alpha=0.5).rows_beyond_draws == 0  # no draws were given
