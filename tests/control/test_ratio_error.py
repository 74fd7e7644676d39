"""Weights that may be wrong by a factor: every solver against the definition, and the promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control import direct_formulas
from tests.control.direct_formulas import assert_supremum_in_contexts
from tests.control.example_logs import (
    drawn_world,
    finite_world,
    leave_one_out,
    log_and_proposals,
    random_columns,
    without_row,
)
from tests.control.test_risk_betting import direct_capital
from tether.control.acting_weights import ActingWeights
from tether.control.constraint import Constraint
from tether.control.high_probability import certified_beta, log_beta_sequence
from tether.control.problem import pose
from tether.control.risk_betting import spread_bets
from tether.control.solvers import clip, mix, search

ALPHA = 0.35


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_exact_solvers_against_the_definition(family, mixed):
    rng = np.random.default_rng(90)
    outcomes = []
    for _ in range(25):
        made = random_columns(rng, int(rng.integers(10, 60)), 6, mix=mixed)
        factor = float(rng.choice([1.0001, 1.05, 1.3]))
        found = tether.calibrate(
            *log_and_proposals(made, mixed), alpha=ALPHA, family=family, ratio_error=factor
        )
        assert found._problem.solver is (clip if family == "clip" else mix)

        def risk(grid, made=made, factor=factor):
            kernel = direct_formulas.KERNELS[family]
            return direct_formulas.risk(made, grid, kernel=kernel, off=(ALPHA, factor))

        ratios = np.append(made["optimized"] - made["safe"], made["draw_optimized"]
                           - made["draw_safe"])  # fmt: skip
        lo, hi = ratios.min() - 3, ratios.max() + 3
        lo, hi = (lo, hi) if family == "clip" else (-hi - 40, 40 - lo)
        assert_supremum_in_contexts(found, risk, lo, hi, ALPHA)
        outcomes.append("inf" if found.beta == np.inf else "finite" if found.exists else "none")
    assert outcomes.count("finite") >= 5
    assert "none" in outcomes


@pytest.mark.parametrize("test_weight", ["analytic", 1.5])
def test_the_exact_solver_with_other_test_weights(test_weight):
    rng = np.random.default_rng(91)
    finite = 0
    for _ in range(30):
        made = random_columns(rng, 30, 6)
        log, proposals = log_and_proposals(made, False)
        found = tether.calibrate(
            log, proposals, alpha=ALPHA, test_weight=test_weight, ratio_error=1.2
        )

        def test(rows, grid, made=made):
            if test_weight == "analytic":
                return np.exp(grid)
            ratio = (made["draw_optimized"] - made["draw_safe"])[:, None]
            return 1.5 * np.exp(np.minimum(grid - ratio, 0)).mean(axis=0)

        def risk(grid, made=made, test=test):
            return direct_formulas.risk(made, grid, test=test, off=(ALPHA, 1.2))

        assert_supremum_in_contexts(found, risk, -9.0, max(9.0, min(found.log_beta, 40)), ALPHA)
        finite += np.isfinite(found.log_beta)
    assert finite >= 4


@pytest.mark.parametrize("drawn", [False, True])
def test_the_search_against_the_definition(drawn):
    rng = np.random.default_rng(92)
    finite = 0
    for trial in range(10):
        if drawn:
            *made, risk, lo, hi = drawn_world(rng, rows=40)
        else:
            *made, risk, lo, hi = finite_world(rng, rows=40, mixed=trial % 2 == 0)
        found = tether.calibrate(*made, alpha=0.3, ratio_error=1.15)
        assert found._problem.solver is search
        assert_supremum_in_contexts(
            found, lambda grid, risk=risk: risk(grid, off=(0.3, 1.15)), lo, hi, 0.3
        )
        finite += np.isfinite(found.log_beta)
    assert finite >= 3


@given(st.integers(0, 2**32 - 1), st.sampled_from(["clip", "mix"]), st.floats(1.01, 1.5))
@settings(max_examples=60, deadline=None)
def test_no_weights_within_the_factor_break_the_condition(seed, family, factor):
    """At beta and below it, whatever the true weights are."""
    rng = np.random.default_rng(seed)
    made = random_columns(rng, 40, 6)
    found = tether.calibrate(
        *log_and_proposals(made, False), alpha=ALPHA, family=family, ratio_error=factor
    )
    if not found.exists:
        return
    signed = np.append(made["loss"], 1.0) - ALPHA
    wrong = factor ** np.concatenate(
        (rng.uniform(-1, 1, size=(50, 41)), rng.choice([-1.0, 1.0], size=(50, 41)))
    )
    for log_beta in found.effective_log_beta - np.array([0.0, 0.01, 0.5, 3.0]):
        rows, test = found._problem.log_weights(log_beta)
        weight = np.exp(np.append(rows, test) - max(rows.max(), test))
        assert ((wrong * weight) @ signed <= 1e-9).all()


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_leaving_out_a_row_is_calibrating_without_it(family):
    rng = np.random.default_rng(93)
    compared = 0
    for _ in range(6):
        log, proposals = log_and_proposals(random_columns(rng, 30, 6), False)
        how = {"alpha": ALPHA, "family": family, "ratio_error": 1.1}
        betas = leave_one_out(tether.calibrate(log, proposals, **how))
        for row in range(0, 30, 3):
            again = tether.calibrate(without_row(log, row), proposals, **how).log_beta
            assert betas[row] == again or betas[row] == pytest.approx(again, abs=1e-6)
            compared += np.isfinite(again)
    assert compared > 10


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_the_curve_has_the_factor(family):
    """The fast curve, linear in alpha, against the risk at each beta."""
    made = random_columns(np.random.default_rng(94), 50, 6)
    found = tether.calibrate(
        *log_and_proposals(made, False), alpha=ALPHA, family=family, ratio_error=1.2
    )
    curve = found.curve(points=40)
    kernel = direct_formulas.KERNELS[family]
    expected = direct_formulas.risk(made, curve.log_beta, kernel=kernel, off=(ALPHA, 1.2))
    assert curve.risk == pytest.approx(expected.astype(float), rel=1e-9)
    for log_beta, risk in zip(curve.log_beta, curve.risk, strict=True):
        assert found._problem.risk(found.constraints[0], log_beta) == pytest.approx(risk)


def test_a_larger_factor_never_allows_more():
    rng = np.random.default_rng(95)
    for made in (log_and_proposals(random_columns(rng, 60, 6), False), drawn_world(rng)[:2]):
        betas = [
            tether.calibrate(*made, alpha=0.5, ratio_error=factor).log_beta
            for factor in (1.0, 1.05, 1.2, 1.6, 4.0, np.inf)
        ]
        assert betas == sorted(betas, reverse=True)
        assert betas[0] > betas[-1] == -np.inf


def test_the_factor_of_the_log_is_the_default():
    rng = np.random.default_rng(96)
    log, proposals = log_and_proposals(random_columns(rng, 60, 6), False)
    estimated = tether.Log(log.loss, log.log_safe, log.log_optimized, ratio_error=1.1)
    plain, explicit = (
        tether.calibrate(log, proposals, alpha=ALPHA, ratio_error=factor) for factor in (None, 1.1)
    )
    found = tether.calibrate(estimated, proposals, alpha=ALPHA)
    assert (found.ratio_error, plain.ratio_error) == (1.1, 1.0)
    assert found.log_beta == explicit.log_beta
    assert tether.calibrate(estimated, proposals, alpha=ALPHA, ratio_error=1.0) == plain
    for wrong in (0.9, 0, -1.0):
        with pytest.raises(ValueError, match="ratio_error must be at least 1"):
            tether.calibrate(log, proposals, alpha=ALPHA, ratio_error=wrong)


def direct_certificate(problem, constraint, confidence):
    """Beta by beta: bets on losses moved away from alpha, with weights divided by the factor."""
    error, factor, alpha = 1 - confidence, constraint.ratio_error, constraint.alpha
    loss, bound = problem.log.loss[constraint.name], alpha + factor * (constraint.bound - alpha)
    moved = alpha + (loss - alpha) * np.where(loss > alpha, factor, 1 / factor)
    bets, found = spread_bets(len(loss), alpha, bound, error), -np.inf
    for log_beta in log_beta_sequence(problem):
        log_weight, log_limit = ActingWeights(problem).at(log_beta)
        limits = np.broadcast_to(np.exp(log_limit), len(loss)) / factor
        rows = (moved, np.exp(log_weight) / factor, limits)
        if direct_capital(bets, *rows, alpha, bound) < 1 / error:
            return found
        found = log_beta
    return found


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(3)"])
def test_confidence_with_a_factor_against_the_definition(family):
    rng = np.random.default_rng(97)
    constraint, moved = Constraint("loss", 0.4, 1.0, 1.1), 0
    for _ in range(3):
        log, *_ = finite_world(rng, rows=80)
        problem = pose(log, None, tether.control.families.find_family(family), "empirical")
        found = certified_beta(problem, [constraint], 0.8).log_beta
        assert found == direct_certificate(problem, constraint, 0.8)
        plain = certified_beta(problem, [Constraint("loss", 0.4, 1.0)], 0.8).log_beta
        assert found <= plain
        moved += -np.inf < found
    assert moved


TRUE_SAFE, TRUE_HARM = np.array([0.5, 0.3, 0.2]), np.array([0.0, 0.02, 0.4])
STATED_SAFE = np.array([0.5, 0.25, 0.25])
"""Wrong scores, by a factor of up to 1.25: the harmful action is said to be more likely under the
safe policy than it is, so its weights are too small."""


def wrong_scores(rng, rows, **how):
    """A calibration on a log with wrong scores, and the true risk of what it would serve."""
    optimized = np.array([0.1, 0.3, 0.6])
    action = rng.choice(3, p=TRUE_SAFE, size=rows)
    tables = [np.tile(np.log(each), (rows, 1)) for each in (STATED_SAFE, optimized)]
    log = tether.Log(
        rng.random(rows) < TRUE_HARM[action],
        *(np.log(each)[action] for each in (STATED_SAFE, optimized)),
        log_safe_all=tables[0],
        log_optimized_all=tables[1],
    )
    found = tether.calibrate(log, **how)
    kernel = np.minimum(optimized, found.beta * STATED_SAFE)
    served = kernel / kernel.sum() if found.exists else TRUE_SAFE
    return found, float(served @ TRUE_HARM)


@pytest.mark.parametrize(("factor", "holds"), [(1.0, False), (1.25, True)])
def test_false_certificates_with_wrong_scores(factor, holds):
    rng, repeats, alpha = np.random.default_rng(98), 40, 0.2
    runs = [
        wrong_scores(rng, 1200, alpha=alpha, confidence=0.8, ratio_error=factor)
        for _ in range(repeats)
    ]
    assert np.mean([found.exists for found, _ in runs]) > 0.9
    false = np.mean([found.exists and risk > alpha for found, risk in runs])
    error = np.sqrt(0.2 * 0.8 / repeats)
    assert (false <= 0.2 + 3 * error) == holds


@pytest.mark.parametrize(("factor", "holds"), [(1.0, False), (1.25, True)])
def test_the_expected_loss_with_wrong_scores(factor, holds):
    """On average over logs the promise holds with the factor, and does not without it."""
    rng, alpha = np.random.default_rng(99), 0.2
    runs = [wrong_scores(rng, 500, alpha=alpha, ratio_error=factor) for _ in range(60)]
    assert np.mean([found.exists for found, _ in runs]) > 0.9
    excess = np.array([risk - found.promise for found, risk in runs])
    error = excess.std() / np.sqrt(len(excess))
    assert (excess.mean() <= 3 * error) == holds
