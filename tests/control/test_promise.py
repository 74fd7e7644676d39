"""The promise: how much beta moves without a row, and what follows for the expected loss."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import gaussian_columns, leave_one_out, log_and_proposals
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
