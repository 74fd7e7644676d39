"""The certified search: contexts, with exact normalizers and with draws."""

import numpy as np
import pytest

import tether
from tests.control.direct_formulas import assert_supremum_in_contexts
from tests.control.example_logs import drawn_world, finite_world, leave_one_out, without_row


@pytest.mark.parametrize("mixed", [False, True])
def test_tables_against_the_definition(mixed):
    rng = np.random.default_rng(11 + mixed)
    outcomes = set()
    for _ in range(60):
        log, risk, lo, hi = finite_world(rng, mixed=mixed)
        found = tether.calibrate(log, alpha=0.3)
        assert_supremum_in_contexts(found, risk, lo, hi, 0.3)
        outcomes.add(bool(found.exists) + bool(found.beta == np.inf))
    assert outcomes == {0, 1, 2}


def test_draws_against_the_definition():
    rng = np.random.default_rng(12)
    outcomes = set()
    for _ in range(60):
        log, proposals, risk, lo, hi = drawn_world(rng)
        found = tether.calibrate(log, proposals, alpha=0.35)
        assert_supremum_in_contexts(found, risk, lo, hi, 0.35)
        outcomes.add(bool(found.exists) + bool(found.beta == np.inf))
    assert {0, 1} <= outcomes


def test_leaving_out_each_row_is_calibrating_without_it_up_to_the_grid():
    """Draws stay when a row goes, so leaving out is recalibrating, up to the grid."""
    rng = np.random.default_rng(33)
    compared = 0
    for family in ("clip", "budgeted_clip(3)"):
        for _ in range(4):
            log, proposals, *_ = drawn_world(rng, rows=30)
            found = tether.calibrate(log, proposals, alpha=0.4, family=family)
            betas = leave_one_out(found)
            for row in range(0, 30, 3):
                again = tether.calibrate(without_row(log, row), proposals, alpha=0.4, family=family)
                if np.isfinite(again.log_beta):
                    assert betas[row] == pytest.approx(again.log_beta, abs=0.03)
                    compared += 1
                else:
                    assert betas[row] == again.log_beta
    assert compared > 20
