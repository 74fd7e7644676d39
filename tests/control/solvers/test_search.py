"""The certified search: contexts, with exact normalizers and with draws."""

import numpy as np
import pytest

import tether
from tests.control.direct_formulas import assert_supremum_in_contexts
from tests.control.example_logs import drawn_world, finite_world, without_row
from tether.control.solvers.search import limits_without_row


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


def test_leaving_out_each_row_is_calibrating_without_it():
    """Draws stay when a row goes, so leaving out is recalibrating: the changes are enclosed."""
    rng = np.random.default_rng(33)
    compared = 0
    for family in ("clip", "budgeted_clip(3)"):
        for _ in range(2):
            log, proposals, *_ = drawn_world(rng, rows=30)
            found = tether.calibrate(log, proposals, alpha=0.4, family=family)
            limits = limits_without_row(found._problem, found.constraints[0])
            lo, hi = found._problem.search_range()
            here, test = (np.exp(part) for part in found._problem.log_weights(found.log_beta))
            changes = []
            for row in range(30):
                again = tether.calibrate(without_row(log, row), proposals, alpha=0.4, family=family)
                own = float(np.clip(again.log_beta, lo, hi))
                assert limits[0] - 1e-9 <= own <= limits[1] + 1e-9
                moved = np.exp(found._problem.log_weights(own)[0][row])
                changes.append(abs(moved - here[row]) / (here.sum() + test))
                compared += np.isfinite(again.log_beta)
            assert sum(changes) * (1 - 1e-9) <= found.stability <= sum(changes) * 1.06 + 1e-4
    assert compared > 60


def in_contexts(loss):
    """A log whose policies are equal, with one context and one draw of each policy per row."""
    rows = len(loss)
    log = tether.Log(loss, np.zeros(rows), np.zeros(rows), context=np.arange(rows))
    labels, source = np.repeat(np.arange(rows), 2), np.tile(["safe", "optimized"], rows)
    drawn = np.zeros(2 * rows)
    return log, tether.Proposals(drawn, drawn, context=labels, source=source)


def test_leaving_out_rows_where_everything_or_nothing_passes():
    harmless = tether.calibrate(*in_contexts(np.zeros(20)), alpha=0.2)
    assert harmless.beta == np.inf
    assert harmless.stability == 0
    # With α = 0.2 the condition 0.8·(harmful + 1) ≤ 0.2·harmless holds by less than one row.
    tight = tether.calibrate(*in_contexts(np.repeat([1.0, 0.0], [1, 8])), alpha=0.2)
    assert tight.beta == np.inf
    assert tight.stability == 0  # every beta is the safe policy


def test_a_family_that_does_not_saturate_is_followed_to_where_its_draws_weigh_too_much():
    """The rows have no weight under the optimized policy itself: 0.8·(1 + β·e⁻⁶⁰) ≤ 0.2·50."""

    class Renamed(tether.Family):
        """Mix without its exact solver."""

        name, smoothness, normalized = "renamed", 1.0, True
        log_kernel = tether.Mix().log_kernel
        log_density = tether.Mix().log_density

    log = tether.Log(np.zeros(50), np.zeros(50), np.full(50, -np.inf))
    proposals = tether.Proposals([0.0, 0.0], [-60.0, -60.0])
    found = tether.calibrate(log, proposals, alpha=0.2, family=Renamed())
    assert found.log_beta == pytest.approx(60.0 + np.log(11.5), abs=1e-9)
    assert found.risk <= 0.2 * (1 + 1e-9)
