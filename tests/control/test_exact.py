"""The exact solvers of clip and mix, against the definitions and against each other's paths."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control import oracle
from tether.control.solvers import clip
from tether.control.solvers.segments import Terms

WEIGHTS = {"clip": oracle.clip_weights, "mix": oracle.mix_weights}


def tables(made, mixed):
    log_mix = {"log_mix": made["mix"]} if mixed else {}
    draw_mix = {"log_mix": made["draw_mix"]} if mixed else {}
    log = tether.Log(made["loss"], made["safe"], made["optimized"], **log_mix)
    return log, tether.Proposals(made["draw_safe"], made["draw_optimized"], **draw_mix)


def assert_supremum(made, found, alpha, family, points=2000, test=None):
    """Risk is at most alpha everywhere below beta and above alpha just past it."""
    ratios = np.concatenate(
        (made["optimized"] - made["safe"], made["draw_optimized"] - made["draw_safe"])
    )
    lo, hi = ratios.min() - 3, ratios.max() + 3
    if family == "mix":
        lo, hi = -hi - 40, 40 - lo
    weights = WEIGHTS[family]
    reached = min(found.log_beta, hi)
    if found.exists:
        below = np.linspace(min(lo, reached - 1), reached, points)
        assert (oracle.risk(made, below, weights=weights, test=test) <= alpha * (1 + 1e-9)).all()
    else:
        assert oracle.risk(made, lo, weights=weights, test=test)[0] > alpha * (1 - 1e-9)
    if np.isfinite(found.log_beta):
        past = found.log_beta + np.linspace(1e-9, 1e-5, 30)
        assert (oracle.risk(made, past, weights=weights, test=test) > alpha * (1 - 1e-13)).any()
        assert found.risk == pytest.approx(alpha, rel=1e-7)


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("spread", [0.3, 1.0, 30.0])
def test_supremum_on_random_problems(family, mixed, spread):
    rng = np.random.default_rng(int(spread * 10))
    outcomes = set()
    for trial in range(250):
        sizes = int(rng.integers(1, 25)), int(rng.integers(1, 12))
        made = oracle.problem(rng, *sizes, spread=spread, mix=mixed, ties=trial % 4 == 0)
        alpha = float(rng.choice([0.1, 0.2, 0.35, 0.6]))
        found = tether.calibrate(*tables(made, mixed), alpha=alpha, family=family)
        assert_supremum(made, found, alpha, family)
        outcomes.add("inf" if found.beta == np.inf else "finite" if found.exists else "none")
    assert outcomes == {"inf", "finite", "none"}


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_supremum_on_a_fine_grid(family):
    rng = np.random.default_rng(7)
    for _ in range(8):
        made = oracle.problem(rng, 30, 10)
        found = tether.calibrate(*tables(made, False), alpha=0.3, family=family)
        assert_supremum(made, found, 0.3, family, points=100_000)


def test_analytic_and_numeric_test_weights():
    rng = np.random.default_rng(3)
    finite = 0
    for _ in range(200):
        made = oracle.problem(rng, int(rng.integers(5, 40)), 5)
        log, proposals = tables(made, False)
        found = tether.calibrate(log, proposals, alpha=0.3, test_weight="analytic")
        assert_supremum(made, found, 0.3, "clip", test=lambda rows, grid: np.exp(grid))
        assert found.beta < np.inf
        found = tether.calibrate(log, alpha=0.3, test_weight=2.5)
        # Without draws the normalizer is the mean weight of the log's own rows.
        assert_supremum(
            {**made, "draw_safe": made["safe"], "draw_optimized": made["optimized"]},
            found,
            0.3,
            "clip",
            test=lambda rows, grid: 2.5 * rows.mean(axis=0),
        )
        finite += np.isfinite(found.log_beta)
        found = tether.calibrate(log, alpha=0.3, test_weight=2.5, family="mix")
        assert_supremum(made, found, 0.3, "mix", test=lambda rows, grid: 2.5 + 0 * grid)
    assert finite > 20


def test_number_as_test_weight_takes_the_normalizer_from_proposals():
    rng = np.random.default_rng(5)
    for _ in range(100):
        made = oracle.problem(rng, 30, 10)
        log, proposals = tables(made, False)

        def test(rows, grid, made=made):
            ratio = (made["draw_optimized"] - made["draw_safe"])[:, None]
            return 1.5 * np.exp(np.minimum(grid - ratio, 0)).mean(axis=0)

        found = tether.calibrate(log, proposals, alpha=0.3, test_weight=1.5)
        assert_supremum(made, found, 0.3, "clip", test=test)


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


def test_large_log_goes_through_bins():
    rng = np.random.default_rng(0)
    made = oracle.problem(rng, 60_000, 40_000, mix=True)
    log, proposals = tables(made, True)
    found = tether.calibrate(log, proposals, alpha=0.2285)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clip, "MAX_SORTED", 10**6)
        assert found.log_beta == pytest.approx(
            tether.calibrate(log, proposals, alpha=0.2285).log_beta, abs=1e-9
        )
    assert found.risk == pytest.approx(0.2285, rel=1e-8)


def test_gaussian_world_finds_the_population_beta():
    """π₀ = N(0, 1), π_t = N(1, 0.8), loss 1{a > 1.5}, α = 0.1: the population's beta is 0.6251."""
    rng = np.random.default_rng(1)
    safe, drawn = rng.normal(size=2_000_000), 1 + 0.8 * rng.normal(size=1000)

    def scores(action):
        return -(action**2) / 2, -(((action - 1) / 0.8) ** 2) / 2 - np.log(0.8)

    log = tether.Log(safe > 1.5, *scores(safe))
    found = tether.calibrate(log, tether.Proposals(*scores(drawn)), alpha=0.1)
    assert found.beta == pytest.approx(0.6251, abs=0.01)


def problems():
    return st.builds(
        lambda seed, rows, draws: oracle.problem(
            np.random.default_rng(seed), rows, draws, spread=1.5, mix=True
        ),
        st.integers(0, 2**32 - 1),
        st.integers(2, 40),
        st.integers(1, 15),
    )


def same(left, right):
    return left == right or left == pytest.approx(right, rel=1e-6, abs=1e-6)


@given(problems(), st.sampled_from(["clip", "mix"]), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_order_shift_and_splitting_change_nothing(made, family, seed):
    log, proposals = tables(made, True)
    beta = tether.calibrate(log, proposals, alpha=0.4, family=family).log_beta
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(log))
    rows = [made[name][order] for name in ("loss", "safe", "optimized")]
    shuffled = tether.Log(*rows, log_mix=made["mix"][order])
    assert same(tether.calibrate(shuffled, proposals, alpha=0.4, family=family).log_beta, beta)

    shift = rng.normal() * 100
    moved = {k: v + shift for k, v in made.items() if k != "loss"} | {"loss": made["loss"]}
    assert same(tether.calibrate(*tables(moved, True), alpha=0.4, family=family).log_beta, beta)

    # One row becomes two of half its weight: each counts as if the mixture were twice as dense.
    split = {k: np.append(made[k], made[k][0]) for k in ("loss", "safe", "optimized", "mix")}
    split["mix"][[0, -1]] += np.log(2)
    halved = tether.Log(split["loss"], split["safe"], split["optimized"], log_mix=split["mix"])
    assert same(tether.calibrate(halved, proposals, alpha=0.4, family=family).log_beta, beta)


@given(problems(), st.sampled_from(["clip", "mix"]))
@settings(max_examples=60, deadline=None)
def test_more_tolerance_never_means_less_beta(made, family):
    betas = [
        tether.calibrate(*tables(made, True), alpha=alpha, family=family).log_beta
        for alpha in (0.1, 0.2, 0.3, 0.5, 0.8)
    ]
    assert all(a <= b + 1e-9 for a, b in pairwise(betas))


@given(problems(), st.sampled_from(["clip", "mix"]))
@settings(max_examples=40, deadline=None)
def test_several_constraints_allow_what_the_strictest_does(made, family):
    other = 2 * made["loss"][::-1]
    log = tether.Log(
        {"a": made["loss"], "b": other}, made["safe"], made["optimized"], log_mix=made["mix"]
    )
    _, proposals = tables(made, True)
    both = tether.calibrate(
        log, proposals, alpha={"a": 0.4, "b": 0.9}, bound={"a": 1.0, "b": 2.0}, family=family
    )
    alone = [
        tether.calibrate(
            tether.Log(loss, made["safe"], made["optimized"], log_mix=made["mix"]),
            proposals,
            alpha=alpha,
            bound=bound,
            family=family,
        ).log_beta
        for loss, alpha, bound in ((made["loss"], 0.4, 1.0), (other, 0.9, 2.0))
    ]
    assert both.log_beta == min(alone)
    assert list(both.log_beta_by_constraint.values()) == alone
    assert both.binding.name == ("a" if alone[0] <= alone[1] else "b")
    if both.exists:
        assert all(both.risks[c.name] <= c.alpha * (1 + 1e-9) for c in both.constraints)


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("scale", [10_000.0, 3_000.0, 700.0])
def test_enormous_ratios_neither_overflow_nor_warn(family, scale):
    rng = np.random.default_rng(2)
    for _ in range(40):
        rows = 50
        safe = -np.abs(rng.normal(size=rows)) * scale
        ratio = rng.choice([-1.0, -0.5, 0.0, 0.01, 1.0], size=rows) * scale
        loss = rng.random(rows) < 0.1
        draws = rng.choice([-1.0, 0.0, 0.02, 1.0], size=9) * scale
        log = tether.Log(loss, safe, safe + ratio)
        proposals = tether.Proposals(np.zeros(9) - scale, draws - scale)
        found = tether.calibrate(log, proposals, alpha=0.2, family=family)
        assert found.risk <= 0.2 + 1e-9 or not found.exists
        assert found.stability >= 0
        assert found.max_weight <= 1
        assert np.isfinite(found.curve().risk).all()
        assert str(found)


def test_ties_with_alpha_pass():
    """(10·0.12 + 1)/11 is 0.2, though floats make it 0.20000000000000004."""
    log = tether.Log(np.full(10, 0.12), np.zeros(10), np.zeros(10))
    proposals = tether.Proposals(np.zeros(3), np.zeros(3))
    assert tether.calibrate(log, proposals, alpha=0.2).beta == np.inf
    assert not tether.calibrate(log, proposals, alpha=0.1999999).exists


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
    risks = oracle.risk(made, grid).astype(float)
    alpha = float(np.sort(risks[(grid > 0) & (grid < 3)])[-200])
    passes = risks <= alpha
    assert np.diff(passes.astype(int)).tolist().count(1) >= 1  # it does come back
    found = tether.calibrate(*tables(made, True), alpha=alpha)
    assert found.log_beta == pytest.approx(oracle.largest(risks, grid, alpha), abs=0.01)


def test_rows_the_optimized_policy_never_takes_weigh_nothing():
    rng = np.random.default_rng(4)
    made = oracle.problem(rng, 60, 20)
    proposals = tables(made, False)[1]
    gone = np.arange(60) < 20
    optimized = np.where(gone, -np.inf, made["optimized"])
    log = tether.Log(made["loss"], made["safe"], optimized)
    kept = tether.Log(made["loss"][~gone], made["safe"][~gone], made["optimized"][~gone])
    found = tether.calibrate(log, proposals, alpha=0.4)
    assert found.log_beta == tether.calibrate(kept, proposals, alpha=0.4).log_beta
    assert found.stability >= 0
    # Mix keeps the safe policy's share of them.
    assert tether.calibrate(log, proposals, alpha=0.4, family="mix").exists
