"""Leaving each row out, against calibrating again without it."""

import numpy as np
import pytest

import tether
from tests.control import oracle
from tests.control.test_contextual import drawn_world, finite_world
from tests.control.test_exact import tables
from tether.control.promise import instability


def leave_one_out(found):
    """Log of the largest beta without each row, for the first constraint."""
    problem = found._problem
    return problem.solver.leave_one_out(problem, found.constraints[0])


def without(log, row):
    """The same log with one row less."""
    keep = np.arange(len(log)) != row
    cut = lambda part: None if part is None else part[keep]  # noqa: E731
    return tether.Log(
        {name: loss[keep] for name, loss in log.loss.items()},
        log.log_safe[keep],
        log.log_optimized[keep],
        context=cut(log.context),
        log_mix=cut(log.log_mix),
        log_safe_all=cut(log.log_safe_all),
        log_optimized_all=cut(log.log_optimized_all),
        log_mix_all=cut(log.log_mix_all),
    )


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("spread", [0.5, 2.0, 30.0])
def test_exact_families(family, mixed, spread):
    rng = np.random.default_rng(31)
    for trial in range(40):
        made = oracle.problem(rng, int(rng.integers(2, 30)), 6, spread=spread, mix=mixed)
        if trial % 5 == 0:
            made["optimized"][rng.random(len(made["loss"])) < 0.3] = -np.inf
        log, proposals = tables(made, mixed)
        found = tether.calibrate(log, proposals, alpha=0.4, family=family)
        betas = leave_one_out(found)
        for row in range(len(log)):
            again = tether.calibrate(without(log, row), proposals, alpha=0.4, family=family)
            # Betas near e^−25 come from the tolerance of a tie and are as good as zero.
            close = betas[row] == pytest.approx(again.log_beta, abs=1e-5)
            with np.errstate(over="ignore"):
                tie = np.exp(betas[row]) == pytest.approx(np.exp(again.log_beta), abs=1e-9)
            assert betas[row] == again.log_beta or close or tie


@pytest.mark.parametrize("test_weight", ["analytic", 2.0])
def test_other_test_weights(test_weight):
    rng = np.random.default_rng(32)
    for _ in range(30):
        made = oracle.problem(rng, 20, 8)
        log, proposals = tables(made, False)
        how = {"alpha": 0.45, "test_weight": test_weight}
        found = tether.calibrate(log, proposals, **how)
        betas = leave_one_out(found)
        for row in range(len(log)):
            again = tether.calibrate(without(log, row), proposals, **how).log_beta
            assert betas[row] == again or betas[row] == pytest.approx(again, abs=1e-6)


def test_searched_families_with_draws():
    """Draws stay when a row goes, so leaving out is recalibrating, up to the grid."""
    rng = np.random.default_rng(33)
    compared = 0
    for family in ("clip", "budgeted_clip(3)"):
        for _ in range(4):
            log, proposals, *_ = drawn_world(rng, rows=30)
            found = tether.calibrate(log, proposals, alpha=0.4, family=family)
            betas = leave_one_out(found)
            for row in range(0, 30, 3):
                again = tether.calibrate(without(log, row), proposals, alpha=0.4, family=family)
                if np.isfinite(again.log_beta):
                    assert betas[row] == pytest.approx(again.log_beta, abs=0.03)
                    compared += 1
                else:
                    assert betas[row] == again.log_beta
    assert compared > 20


def test_promise_follows_from_stability():
    rng = np.random.default_rng(34)
    made = oracle.gaussian(rng, 400, 100)
    found = tether.calibrate(*tables(made, False), alpha=0.1)
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
        tether.calibrate(*tables(oracle.gaussian(rng, rows, 50), False), alpha=0.12)
        for rows in sizes
    ]
    stabilities = [each.stability for each in found]
    assert stabilities[0] > stabilities[1] > stabilities[2]


def test_budgeted_family_uses_its_measured_smoothness():
    log, *_ = finite_world(np.random.default_rng(36), rows=150)
    found = tether.calibrate(log, alpha=0.25, family="budgeted_clip(3)")
    assert found.smoothness > 1
    assert found.alpha <= found.promise <= found.bound


def test_infinite_and_missing_betas_compare():
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
