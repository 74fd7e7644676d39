"""Test weights: empirical, analytic and fixed, against the definition."""

import numpy as np
import pytest

import tether
from tests.control.direct_formulas import assert_supremum, assert_supremum_in_contexts
from tests.control.example_logs import (
    drawn_world,
    finite_world,
    log_and_proposals,
    random_columns,
)
from tests.scale import scaled
from tether.control.densities import log_ratio_limit
from tether.control.problem import pose
from tether.control.test_weight import (
    Analytic,
    Empirical,
    Fixed,
    MaxRatio,
    find_test_weight,
    is_bounded,
)


def test_analytic_and_fixed_test_weights():
    rng = np.random.default_rng(3)
    finite = 0
    for _ in range(scaled(60)):
        made = random_columns(rng, int(rng.integers(5, 40)), 5)
        log, proposals = log_and_proposals(made, False)
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
    assert finite > 6


def test_a_fixed_test_weight_takes_the_normalizer_from_proposals():
    rng = np.random.default_rng(5)
    for _ in range(scaled(40)):
        made = random_columns(rng, 30, 10)
        log, proposals = log_and_proposals(made, False)

        def test(rows, grid, made=made):
            ratio = (made["draw_optimized"] - made["draw_safe"])[:, None]
            return 1.5 * np.exp(np.minimum(grid - ratio, 0)).mean(axis=0)

        found = tether.calibrate(log, proposals, alpha=0.3, test_weight=1.5)
        assert_supremum(made, found, 0.3, "clip", test=test)


def test_analytic_test_weight_in_contexts():
    """At most N tries, each accepted: N·max(β, 1), and the safe policy after N rejections: 1."""
    rng = np.random.default_rng(14)
    outcomes = set()
    for _ in range(20):
        log, proposals, risk, lo, hi = drawn_world(rng, rows=40)
        empirical = tether.calibrate(log, proposals, alpha=0.3)
        analytic = tether.calibrate(log, proposals, alpha=0.3, test_weight="analytic")
        assert analytic.log_beta <= empirical.log_beta + 1e-9
        assert analytic.log_beta < np.inf

        def heaviest(grid):
            return 3 * np.maximum(np.exp(grid), 1) + 1

        assert_supremum_in_contexts(
            analytic,
            lambda grid, risk=risk: risk(grid, heaviest),
            lo,
            max(hi, analytic.log_beta),
            0.3,
        )
        outcomes.add(analytic.exists)
    assert outcomes == {True, False}


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_no_proposals_give_more_than_the_analytic_test_weight(share):
    """(N·max(β, 1) + 1)/m₀ exactly, which the rows and the empirical weight stay below."""
    log, proposals, *_ = drawn_world(np.random.default_rng(47), rows=40, draws=4)
    scores = log.log_safe, log.log_optimized
    drawn = proposals.log_safe, proposals.log_optimized
    mixes = [np.logaddexp(np.log(share) + a, np.log1p(-share) + b) if share < 1 else a
             for a, b in (scores, drawn)]  # fmt: skip
    mixed = tether.Log(log.loss, *scores, context=log.context, log_mix=mixes[0], safe_share=share)
    source = np.where(proposals.from_safe, "safe", "optimized")
    made = tether.Proposals(*drawn, context=proposals.context, log_mix=mixes[1], source=source)
    analytic, empirical = (pose(mixed, made, tether.Clip(), n) for n in ("analytic", "empirical"))
    for beta in (0.1, 0.9, 1.0, 3.0, 50.0):
        rows, heaviest = analytic.log_weights(np.log(beta))
        assert np.exp(heaviest) == pytest.approx((4 * max(beta, 1) + 1) / share)
        assert rows.max() <= heaviest
        assert empirical.log_weights(np.log(beta))[1] <= heaviest


def test_the_analytic_test_weight_can_stop_beta_above_every_ratio():
    """Nothing harmful in the log: only the growing test weight stops beta."""
    safe = np.log(np.full((200, 2), 0.5))
    optimized = np.log(np.tile([0.7, 0.3], (200, 1)))
    log = tether.Log(
        np.zeros(200), safe[:, 0], optimized[:, 0], log_safe_all=safe, log_optimized_all=optimized
    )
    assert tether.calibrate(log, alpha=0.1).beta == np.inf
    found = tether.calibrate(log, alpha=0.1, test_weight="analytic")
    # Past ratio 1.4 weights are 1.4, ψ is 1, the test weight is beta: 200·0.1·1.4 = 0.9·beta.
    assert found.beta == pytest.approx(200 * 0.1 * 1.4 / 0.9)


def mixture_with_share(made, share):
    """The columns with a mixture of the safe policy, by its share, and another policy."""
    made = dict(made)
    for prefix in ("", "draw_"):
        safe, other = made[f"{prefix}safe"], made[f"{prefix}optimized"] - 0.3
        made[f"{prefix}mix"] = np.logaddexp(np.log(share) + safe, np.log1p(-share) + other)
    return made


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_the_analytic_test_weight_is_divided_by_the_safe_share(share):
    """An action that only the safe policy takes weighs 1/m₀ times as much: β / m₀."""
    rng = np.random.default_rng(41)
    finite = 0
    for _ in range(scaled(30)):
        made = mixture_with_share(random_columns(rng, 60, 8), share)
        log = tether.Log(
            made["loss"], made["safe"], made["optimized"], log_mix=made["mix"], safe_share=share
        )
        _, proposals = log_and_proposals(made, True)
        found = tether.calibrate(log, proposals, alpha=0.35, test_weight="analytic")
        assert_supremum(made, found, 0.35, "clip", test=lambda rows, grid: np.exp(grid) / share)
        finite += np.isfinite(found.log_beta)
    assert finite > 8


def test_the_analytic_test_weight_in_contexts_is_divided_by_the_safe_share():
    """In context x nothing weighs more than β / (m₀·ψ(β, x)); here m₀ is one half."""
    rng = np.random.default_rng(42)

    def heaviest(psi, grid):
        return np.exp(grid) / (0.5 * psi.min(axis=0))

    outcomes = set()
    for _ in range(30):
        log, risk, lo, hi = finite_world(rng, rows=40, mixed=True)
        found = tether.calibrate(log, alpha=0.2, test_weight="analytic")
        assert_supremum_in_contexts(
            found, lambda grid, risk=risk: risk(grid, heaviest), lo, max(hi, found.log_beta), 0.2
        )
        outcomes.add(found.exists)
    assert outcomes == {True, False}


def test_a_fixed_test_weight_in_contexts_is_the_weight_itself():
    rng = np.random.default_rng(43)
    finite = 0
    for _ in range(30):
        log, proposals, risk, lo, hi = drawn_world(rng, rows=40)
        found = tether.calibrate(log, proposals, alpha=0.25, test_weight=1.5)
        assert_supremum_in_contexts(
            found, lambda grid, risk=risk: risk(grid, lambda grid: 1.5), lo, hi, 0.25
        )
        finite += np.isfinite(found.log_beta)
    assert finite >= 3


@pytest.mark.parametrize("test_weight", ["empirical", "analytic", 2.0])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_weight_is_the_largest_among_the_candidates(test_weight, mixed):
    log, _, lo, hi = finite_world(np.random.default_rng(44), mixed=mixed)
    problem = pose(log, None, tether.Clip(), test_weight)
    candidates = problem.candidates
    for log_beta in np.linspace(lo, hi, 9):
        log_psi = problem.densities.log_psi(log_beta)
        ratio = np.minimum(candidates.log_ratio, log_beta) - log_psi[candidates.cell]
        expected = (ratio + candidates.log_base).max(initial=-np.inf)
        if test_weight == 2.0:
            assert len(ratio) == 0
            expected = np.log(2.0)
        assert problem.log_weights(log_beta)[1] == pytest.approx(expected)


class Squeezed(tether.Family):
    """A family of one's own with a bounded ratio that is not a clip."""

    name = "squeezed"

    def log_kernel(self, log_safe, log_optimized, log_beta):
        with np.errstate(invalid="ignore"):
            ratio = np.where(log_optimized == np.inf, np.inf, log_optimized - log_safe)
        return log_safe - np.logaddexp(-log_beta, -ratio)


def test_which_families_are_bounded():
    assert is_bounded(tether.Clip())
    assert is_bounded(tether.BudgetedClip(3))
    assert is_bounded(Squeezed())
    assert not is_bounded(tether.Mix())
    assert log_ratio_limit(tether.Clip(), 0.7, np.array([-0.2]))[0] == pytest.approx(0.9)


def test_which_test_weight_a_name_means():
    log = tether.Log([0.0], [0.0], [0.0])
    clip, mix, budgeted = tether.Clip(), tether.Mix(), tether.BudgetedClip(2)
    assert find_test_weight("empirical", log, mix, has_draws=True) == Empirical()
    assert find_test_weight("empirical", log, clip, has_draws=False) == Analytic()
    assert find_test_weight("analytic", log, budgeted, has_draws=True) == Analytic()
    assert find_test_weight(3, log, mix, has_draws=False) == Fixed(3.0)
    assert Fixed(3.0).label == 3.0
    for family in (mix, budgeted, Squeezed()):
        with pytest.raises(
            ValueError, match=f"'empirical' of family '{family.name[:5]}.*needs .*pro"
        ):
            find_test_weight("empirical", log, family, has_draws=False)
    with pytest.raises(ValueError, match="'analytic' does not exist for family 'mix'"):
        find_test_weight("analytic", log, mix, has_draws=True)
    stated = tether.Log([0.0], [0.0], [0.0], max_ratio=4)
    for test_weight in ("analytic", "empirical"):
        found = find_test_weight(test_weight, stated, mix, has_draws=False)
        assert found == MaxRatio(np.log(4.0))
        # What saturates is evaluated at the ratios seen once beta is infinite.
        assert find_test_weight(test_weight, stated, clip, has_draws=False) == Analytic()
    assert find_test_weight("empirical", stated, mix, has_draws=True) == Empirical()
    mixed = tether.Log([0.0], [0.0], [0.0], log_mix=[0.0], max_ratio=4)
    with pytest.raises(ValueError, match="'max_ratio' needs safe_share in the log"):
        find_test_weight("empirical", mixed, mix, has_draws=False)
    for test_weight in ("analytic", "empirical"):
        with pytest.raises(ValueError, match="needs safe_share in the log"):
            find_test_weight(test_weight, mixed, clip, has_draws=False)


@pytest.mark.parametrize("mixed", [False, True])
def test_no_action_of_mix_weighs_more_than_one_with_the_largest_ratio(mixed):
    log, _, lo, hi = finite_world(np.random.default_rng(45), mixed=mixed)
    highest = (log.log_optimized_all - log.log_safe_all).max()
    stated = tether.Log(
        log.loss,
        log.log_safe,
        log.log_optimized,
        context=np.arange(len(log)),
        log_mix=log.log_mix,
        safe_share=log.safe_share,
        max_ratio=np.exp(highest),
    )
    exact, bounded = (pose(each, None, tether.Mix(), "empirical") for each in (log, stated))
    assert bounded.test_weight == MaxRatio(pytest.approx(highest))
    for log_beta in np.linspace(lo - 5, hi + 5, 9):
        largest, bound = (problem.log_weights(log_beta)[1] for problem in (exact, bounded))
        assert bound >= largest - 1e-9
        if not mixed:
            assert bound == pytest.approx(largest)
