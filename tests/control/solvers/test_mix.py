"""The exact solver for mix, against the definition."""

import numpy as np
import pytest

import tether
from tests.control.direct_formulas import assert_supremum
from tests.control.example_logs import (
    drawn_world,
    leave_one_out,
    log_and_proposals,
    random_columns,
    without_row,
)
from tests.scale import scaled


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("spread", [0.3, 1.0, 30.0])
def test_supremum_on_random_problems(mixed, spread):
    rng = np.random.default_rng(int(spread * 10))
    outcomes = set()
    for trial in range(scaled(100)):
        sizes = int(rng.integers(1, 25)), int(rng.integers(1, 12))
        made = random_columns(rng, *sizes, spread=spread, mix=mixed, ties=trial % 4 == 0)
        alpha = float(rng.choice([0.1, 0.2, 0.35, 0.6]))
        found = tether.calibrate(*log_and_proposals(made, mixed), alpha=alpha, family="mix")
        assert_supremum(made, found, alpha, "mix")
        outcomes.add("inf" if found.beta == np.inf else "finite" if found.exists else "none")
    assert outcomes == {"inf", "finite", "none"}


def test_supremum_on_a_fine_grid():
    rng = np.random.default_rng(7)
    for _ in range(scaled(2)):
        made = random_columns(rng, 30, 10)
        found = tether.calibrate(*log_and_proposals(made, False), alpha=0.3, family="mix")
        assert_supremum(made, found, 0.3, "mix", points=40_000)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("spread", [0.5, 2.0, 30.0])
def test_leaving_out_each_row_is_calibrating_without_it(mixed, spread):
    rng = np.random.default_rng(31)
    for trial in range(scaled(16)):
        made = random_columns(rng, int(rng.integers(2, 30)), 6, spread=spread, mix=mixed)
        if trial % 5 == 0:
            made["optimized"][rng.random(len(made["loss"])) < 0.3] = -np.inf
        log, proposals = log_and_proposals(made, mixed)
        found = tether.calibrate(log, proposals, alpha=0.4, family="mix")
        betas = leave_one_out(found)
        for row in range(len(log)):
            again = tether.calibrate(without_row(log, row), proposals, alpha=0.4, family="mix")
            # Betas near e^−25 come from the tolerance of a tie and are as good as zero.
            close = betas[row] == pytest.approx(again.log_beta, abs=1e-5)
            with np.errstate(over="ignore"):
                tie = np.exp(betas[row]) == pytest.approx(np.exp(again.log_beta), abs=1e-9)
            assert betas[row] == again.log_beta or close or tie


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_risks_at_many_betas_are_the_risk_at_each(mixed, spread):
    rng = np.random.default_rng(9)
    for test_weight in ("empirical", 3.0):
        made = random_columns(rng, 40, 12, spread=spread, mix=mixed)
        log, proposals = log_and_proposals(made, mixed)
        found = tether.calibrate(log, proposals, alpha=0.3, family="mix", test_weight=test_weight)
        grid = np.sort(rng.normal(size=20) * spread)
        problem, constraint = found._problem, found.constraints[0]
        expected = [problem.risk(constraint, point) for point in grid]
        assert problem.solver.risks(problem, constraint, grid) == pytest.approx(expected, abs=1e-8)


def test_mix_needs_no_normalizer():
    rng = np.random.default_rng(18)
    log, proposals, *_ = drawn_world(rng, rows=60)
    marginal = tether.Log(log.loss, log.log_safe, log.log_optimized)
    at_large = tether.Proposals(proposals.log_safe, proposals.log_optimized)
    assert tether.calibrate(log, proposals, alpha=0.5, family="mix").log_beta == (
        tether.calibrate(marginal, at_large, alpha=0.5, family="mix").log_beta
    )
    assert tether.calibrate(log, alpha=0.5, family="mix", test_weight=20.0).exists
