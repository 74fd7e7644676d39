"""The exact solver for clip, against the definition and against its own slower paths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control import direct_formulas
from tests.control.direct_formulas import assert_supremum
from tests.control.example_logs import (
    leave_one_out,
    log_and_proposals,
    random_columns,
    without_row,
)
from tests.scale import scaled
from tether.control.solvers import clip
from tether.control.solvers.segments import Terms


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("spread", [0.3, 1.0, 30.0])
def test_supremum_on_random_problems(mixed, spread):
    rng = np.random.default_rng(int(spread * 10))
    outcomes = set()
    for trial in range(scaled(100)):
        sizes = int(rng.integers(1, 25)), int(rng.integers(1, 12))
        made = random_columns(rng, *sizes, spread=spread, mix=mixed, ties=trial % 4 == 0)
        alpha = float(rng.choice([0.1, 0.2, 0.35, 0.6]))
        found = tether.calibrate(*log_and_proposals(made, mixed), alpha=alpha)
        assert_supremum(made, found, alpha, "clip")
        outcomes.add("inf" if found.beta == np.inf else "finite" if found.exists else "none")
    assert outcomes == {"inf", "finite", "none"}


def test_supremum_on_a_fine_grid():
    rng = np.random.default_rng(7)
    for _ in range(scaled(3)):
        made = random_columns(rng, 30, 10)
        found = tether.calibrate(*log_and_proposals(made, False), alpha=0.3)
        assert_supremum(made, found, 0.3, "clip", points=100_000)


@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 16, 64]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_bins_find_what_sorting_finds(seed, bins, wide):
    rng = np.random.default_rng(seed)
    rows, tops = int(rng.integers(20, 200)), int(rng.integers(1, 60))
    scale = 3000.0 if wide else 1.0
    terms = Terms(
        np.round(rng.normal(size=rows) * scale, int(rng.integers(0, 6))),
        rng.normal(size=rows) - rng.choice([0.1, 0.5, 1.0]),
        rng.normal(size=tops) * scale,
        rng.exponential(size=tops),
    )
    extra = float(rng.choice([0.0, -3.0]))
    whole = clip.first_crossing(terms, extra)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clip, "BINS", bins)
        patched.setattr(clip, "MAX_SORTED", 4)
        patched.setattr(clip, "TERMS_PER_PASS", 32)
        binned = clip.first_crossing(terms, extra)
    assert binned == whole or binned == pytest.approx(whole, abs=1e-8)


def test_a_large_log_is_binned():
    rng = np.random.default_rng(0)
    made = random_columns(rng, 60_000, 40_000, mix=True)
    log, proposals = log_and_proposals(made, True)
    found = tether.calibrate(log, proposals, alpha=0.2285)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clip, "MAX_SORTED", 10**6)
        assert found.log_beta == pytest.approx(
            tether.calibrate(log, proposals, alpha=0.2285).log_beta, abs=1e-9
        )
    assert found.risk == pytest.approx(0.2285, rel=1e-8)


def test_first_crossing_not_the_last():
    """The risk passes alpha, falls below it again, and rises: beta stops at the first."""
    # Harmful rows at ratio 1, harmless ones at ratio 10, harmful ones at ratio 100.
    loss = np.repeat([1.0, 0.0, 1.0], [4, 12, 8])
    ratio = np.log(np.repeat([1.0, 10.0, 100.0], [4, 12, 8]))
    base = np.repeat([0.9, 0.05, 0.001], [4, 12, 8])
    log_mix = -np.log(base)
    made = {
        "loss": np.append(loss, np.zeros(60)),
        "safe": np.zeros(84),
        "optimized": np.append(ratio, np.full(60, np.log(0.3))),
        "mix": np.append(log_mix, np.zeros(60)),
        "draw_safe": np.zeros(1),
        "draw_optimized": np.zeros(1),
        "draw_mix": np.full(1, 3.0),
    }
    grid = np.linspace(-3, 7, 4001)
    risks = direct_formulas.risk(made, grid).astype(float)
    alpha = float(np.sort(risks[(grid > 0) & (grid < 3)])[-200])
    passes = risks <= alpha
    assert np.diff(passes.astype(int)).tolist().count(1) >= 1  # it does come back
    found = tether.calibrate(*log_and_proposals(made, True), alpha=alpha)
    assert found.log_beta == pytest.approx(
        direct_formulas.largest_passing(risks, grid, alpha), abs=0.01
    )


def test_rows_the_optimized_policy_never_takes_weigh_nothing():
    rng = np.random.default_rng(4)
    made = random_columns(rng, 60, 20)
    proposals = log_and_proposals(made, False)[1]
    gone = np.arange(60) < 20
    optimized = np.where(gone, -np.inf, made["optimized"])
    log = tether.Log(made["loss"], made["safe"], optimized)
    kept = tether.Log(made["loss"][~gone], made["safe"][~gone], made["optimized"][~gone])
    found = tether.calibrate(log, proposals, alpha=0.4)
    assert found.log_beta == tether.calibrate(kept, proposals, alpha=0.4).log_beta
    assert found.stability >= 0
    # Mix keeps the safe policy's share of them.
    assert tether.calibrate(log, proposals, alpha=0.4, family="mix").exists


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("spread", [0.5, 2.0, 30.0])
def test_leaving_out_each_row_is_calibrating_without_it(mixed, spread):
    rng = np.random.default_rng(31)
    for trial in range(scaled(16)):
        made = random_columns(rng, int(rng.integers(2, 30)), 6, spread=spread, mix=mixed)
        if trial % 5 == 0:
            made["optimized"][rng.random(len(made["loss"])) < 0.3] = -np.inf
        log, proposals = log_and_proposals(made, mixed)
        found = tether.calibrate(log, proposals, alpha=0.4)
        betas = leave_one_out(found)
        for row in range(len(log)):
            again = tether.calibrate(without_row(log, row), proposals, alpha=0.4)
            # Betas near e^−25 come from the tolerance of a tie and are as good as zero.
            close = betas[row] == pytest.approx(again.log_beta, abs=1e-5)
            with np.errstate(over="ignore"):
                tie = np.exp(betas[row]) == pytest.approx(np.exp(again.log_beta), abs=1e-9)
            assert betas[row] == again.log_beta or close or tie


@pytest.mark.parametrize("test_weight", ["analytic", 2.0])
def test_leaving_out_each_row_with_other_test_weights(test_weight):
    rng = np.random.default_rng(32)
    for _ in range(30):
        made = random_columns(rng, 20, 8)
        log, proposals = log_and_proposals(made, False)
        how = {"alpha": 0.45, "test_weight": test_weight}
        found = tether.calibrate(log, proposals, **how)
        betas = leave_one_out(found)
        for row in range(len(log)):
            again = tether.calibrate(without_row(log, row), proposals, **how).log_beta
            assert betas[row] == again or betas[row] == pytest.approx(again, abs=1e-6)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_risks_at_many_betas_are_the_risk_at_each(mixed, spread):
    rng = np.random.default_rng(9)
    for test_weight in ("empirical" if mixed else "analytic", 3.0):
        made = random_columns(rng, 40, 12, spread=spread, mix=mixed)
        log, proposals = log_and_proposals(made, mixed)
        found = tether.calibrate(log, proposals, alpha=0.3, test_weight=test_weight)
        grid = np.sort(rng.normal(size=20) * spread)
        problem, constraint = found._problem, found.constraints[0]
        expected = [problem.risk(constraint, point) for point in grid]
        assert problem.solver.risks(problem, constraint, grid) == pytest.approx(expected, abs=1e-8)


def test_bins_wider_than_the_range_of_floats_certify_nothing_by_underflow(monkeypatch):
    """A bin of width 1000: at its right edge e^−1000 is zero, and both parts of h with it."""
    monkeypatch.setattr(clip, "BINS", 4)
    monkeypatch.setattr(clip, "MAX_SORTED", 4)
    ratio = np.array([0.0, 0.0, 1100.0, 1200.0, 4000.0])
    amount = np.array([-1e-9, -1e-9, -2.0, 1.0, -1e-9])
    terms = Terms(ratio, amount, np.empty(0), np.empty(0))
    found = clip.first_crossing(terms)
    # Between the ratios 1100 and 1200 the condition reads 1 − 1e-9 ≤ 2·e^(1100 − t).
    expected = 1100 + np.log(2 / (1 - 1e-9))
    monkeypatch.setattr(clip, "MAX_SORTED", 100)
    assert clip.first_crossing(terms) == pytest.approx(expected)
    assert found == pytest.approx(expected)


def test_a_negative_part_that_underflows_to_zero_certifies_no_bin():
    terms = Terms(np.array([0.0, 1.0]), np.array([-1.0, 0.5]), np.empty(0), np.empty(0))
    bins = clip._Bins(terms, 0.0, 1e7, clip.Carry())  # all but the first bin hold zeros
    assert (bins.clipped[:, 2:] == 0).all()
    assert (bins.unclipped[:, 2:] == 0).all()
    assert bins.doubtful[1:].all()


def test_bins_are_certified_where_the_negative_part_is_larger():
    rng = np.random.default_rng(0)
    ratio = rng.normal(size=1000)
    amount = np.where(rng.random(1000) < 0.1, 1.0, -1.0)
    bins = clip._Bins(
        Terms(ratio, amount, np.empty(0), np.empty(0)), ratio.min(), ratio.max(), clip.Carry()
    )
    assert bins.doubtful.mean() < 0.01
