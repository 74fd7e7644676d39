"""A family of the user's own, without touching the package: calibrated, sampled, deployed."""

import numpy as np
import pytest
from scipy import stats

import tether
from tests.control.direct_formulas import (
    assert_supremum,
    assert_supremum_in_contexts,
    geometric_kernel,
)
from tests.control.example_logs import (
    drawn_world,
    finite_world,
    gaussian_columns,
    log_and_proposals,
)
from tests.scale import scaled
from tether.control.family import limit_density
from tether.control.solvers import search
from tether.control.solvers.weight_bounds import certified


class Geometric(tether.Family):
    """safe^(1−s)·optimized^s / ψ with s = β/(1 + β), and what its sampler needs."""

    name = "geometric"

    def __init__(self, smoothness=None):
        self.smoothness = smoothness

    def log_kernel(self, log_safe, log_optimized, log_beta):
        log_safe_share, log_share = log_shares(log_beta)
        return np.exp(log_safe_share) * log_safe + np.exp(log_share) * log_optimized

    def optimized_share(self, log_beta):
        return float(np.exp(log_shares(log_beta)[1]))

    def log_accept(self, log_ratio, log_beta):
        log_safe_share, log_share = log_shares(log_beta)
        log_proposal = np.logaddexp(log_safe_share, log_share + log_ratio)
        return np.minimum(np.exp(log_share) * log_ratio - log_proposal, 0.0)


def log_shares(log_beta):
    return -np.logaddexp(0.0, log_beta), -np.logaddexp(0.0, -log_beta)


def geometric_gaussian(beta):
    """The closed form for N(0, 1) and N(1, 0.8): a normal distribution."""
    share = beta / (1 + beta)
    precision = (1 - share) + share / 0.64
    return stats.norm(share / 0.64 / precision, precision**-0.5)


SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)
FAR = 25.0
"""How far past its ratios, in log beta, a family that does not saturate is compared."""


def test_finite_action_sets_against_the_definition():
    rng = np.random.default_rng(51)
    outcomes = set()
    for trial in range(20):
        log, risk, lo, hi = finite_world(
            rng, rows=40, mixed=trial % 2 == 0, kernel=geometric_kernel
        )
        found = tether.calibrate(log, alpha=0.22, family=Geometric())
        assert_supremum_in_contexts(found, risk, lo - FAR, hi + FAR, 0.22)
        outcomes.add("inf" if found.beta == np.inf else "finite" if found.exists else "none")
    assert outcomes >= {"finite", "none"}


def test_a_normalizer_that_draws_could_only_estimate_is_refused():
    """No weight divides by an estimate, whatever the test weight and the number of draws."""
    log, proposals, *_ = drawn_world(np.random.default_rng(52), rows=10, draws=40)
    for test_weight in ("empirical", 1.5):
        with pytest.raises(ValueError, match=r"'geometric' has a normalizing constant in each con"):
            tether.calibrate(log, proposals, alpha=0.3, family=Geometric(), test_weight=test_weight)
    assert tether.calibrate(log, proposals, alpha=0.9, family=Coin()).family == "coin"


@pytest.mark.parametrize("mixed", [False, True])
def test_logs_without_contexts_against_the_definition(mixed):
    rng = np.random.default_rng(53)
    finite = 0
    for _ in range(scaled(8)):
        made = gaussian_columns(rng, 150, 60)
        if mixed:
            for prefix in ("", "draw_"):
                both = np.logaddexp(made[f"{prefix}safe"], made[f"{prefix}optimized"])
                made[f"{prefix}mix"] = both - np.log(2)
        log, proposals = log_and_proposals(made, mixed)
        found = tether.calibrate(log, proposals, alpha=0.12, family=Geometric())
        assert found._problem.solver is search
        assert_supremum(made, found, 0.12, "geometric")
        finite += np.isfinite(found.log_beta)
    assert finite > 3


def test_a_fixed_test_weight_against_the_definition():
    """The weight is a number, so the rows count with their normalizer, estimated from the draws."""
    rng = np.random.default_rng(54)
    finite = 0
    for _ in range(scaled(8)):
        made = gaussian_columns(rng, 150, 60)
        log, proposals = log_and_proposals(made, False)

        def heaviest(rows, grid, made=made):
            draws = (made["draw_safe"][:, None], made["draw_optimized"][:, None])
            log_terms = geometric_kernel(*draws, grid) - draws[1]
            return 1.5 * np.exp(log_terms).mean(axis=0)

        found = tether.calibrate(log, proposals, alpha=0.12, family=Geometric(), test_weight=1.5)
        assert_supremum(made, found, 0.12, "geometric", test=heaviest)
        finite += np.isfinite(found.log_beta)
    for _ in range(scaled(4)):
        log, risk, lo, hi = finite_world(rng, rows=40, kernel=geometric_kernel)
        found = tether.calibrate(log, alpha=0.22, family=Geometric(), test_weight=1.5)
        assert_supremum_in_contexts(
            found,
            lambda grid, risk=risk: risk(grid, lambda psi, grid: 1.5),
            lo - FAR,
            hi + FAR,
            0.22,
        )
        finite += np.isfinite(found.log_beta)
    assert finite > 3


def test_a_stated_smoothness_certifies_the_search():
    """With |log ρ| ≤ R the log-density moves by at most s·(1−s)·2R ≤ R/2 per unit of log beta."""
    rng = np.random.default_rng(55)
    for _ in range(scaled(2)):
        log, risk, lo, hi = finite_world(rng, rows=40, kernel=geometric_kernel)
        bound = np.abs(log.log_optimized_all - log.log_safe_all).max() / 2
        stated = tether.calibrate(log, alpha=0.25, family=Geometric(smoothness=float(bound)))
        measured = tether.calibrate(log, alpha=0.25, family=Geometric())
        assert certified(stated._problem)
        assert not certified(measured._problem)
        assert not any("states no smoothness" in warning for warning in stated.warnings)
        assert any("states no smoothness" in warning for warning in measured.warnings)
        assert stated.smoothness == bound
        assert measured.smoothness is None
        assert_supremum_in_contexts(stated, risk, lo - FAR, hi + FAR, 0.25)
        assert stated.log_beta == pytest.approx(measured.log_beta, abs=1e-6)


def test_the_diagnostics_of_a_family_without_a_sampler_rate():
    log, *_ = finite_world(np.random.default_rng(56), rows=80)
    found = tether.calibrate(log, alpha=0.25, family=Geometric())
    assert np.isnan(found.acceptance)
    assert "acceptance" not in str(found)
    assert "geometric" in str(found)
    assert found.smoothness is None
    assert 0 < found.stability < np.inf
    assert found.curve(points=9).risk.max() <= 1


@pytest.mark.parametrize("beta", [0.3, 2.0])
def test_samples_follow_the_density(beta):
    """Accept-reject under the arithmetic mean, tested by Kolmogorov and Smirnov and in bins."""
    policy = tether.Tethered(SAFE, OPTIMIZED, beta, family=Geometric())
    actions, info = policy.sample_with_info(20_000, np.random.default_rng(57))
    exact = geometric_gaussian(beta)
    assert stats.kstest(actions, exact.cdf).pvalue > 0.01
    edges = exact.ppf(np.linspace(0, 1, 41))
    counts, _ = np.histogram(actions, edges)
    assert stats.chisquare(counts).pvalue > 0.01
    psi = np.exp(policy.normalizer(1).log_psi[0])
    assert info.acceptance == pytest.approx(psi, abs=0.02)  # the kernel over a proposal density


def test_log_prob_is_the_density():
    policy = tether.Tethered(SAFE, OPTIMIZED, 0.7, family=Geometric())
    actions = np.linspace(-3, 3, 41)
    scores, error = policy.log_prob_with_error(len(actions), actions)
    assert np.abs(scores - geometric_gaussian(0.7).logpdf(actions)).max() < 5 * error.max()
    assert error.max() < 0.01


def test_finite_actions_are_sampled_and_scored_exactly():
    safe = tether.Categorical.from_probabilities([0.5, 0.3, 0.2])
    optimized = tether.Categorical.from_probabilities([0.1, 0.3, 0.6])
    policy = tether.Tethered(safe, optimized, 3.0, family=Geometric())
    kernel = np.array([0.5, 0.3, 0.2]) ** 0.25 * np.array([0.1, 0.3, 0.6]) ** 0.75
    expected = kernel / kernel.sum()
    assert np.exp(policy.log_prob_all(1))[0] == pytest.approx(expected)
    actions = policy.sample(20_000, np.random.default_rng(58))
    assert stats.chisquare(np.bincount(actions), 20_000 * expected).pvalue > 0.01


def test_a_calibrated_beta_is_served_and_brings_its_family(tmp_path):
    rng = np.random.default_rng(59)
    logged = SAFE.sample(2_000, rng)
    log = tether.make_log(SAFE, OPTIMIZED, None, logged, logged > 1.5)
    proposals = tether.make_proposals(SAFE, OPTIMIZED, None, 2_000, rng)
    found = tether.calibrate(log, proposals, alpha=0.1, family=Geometric())
    assert 0.1 < found.beta < 1
    policy = tether.Tethered(SAFE, OPTIMIZED, found)
    served = (policy.sample(20_000, rng) > 1.5).mean()
    assert served == pytest.approx(geometric_gaussian(found.beta).sf(1.5), abs=0.01)
    found.save(tmp_path / "found.json")
    loaded = tether.Calibration.load(tmp_path / "found.json")
    with pytest.raises(ValueError, match=r"family must be given: .* 'geometric' is not a family"):
        tether.Tethered(SAFE, OPTIMIZED, loaded)
    assert tether.Tethered(SAFE, OPTIMIZED, loaded, family=Geometric()).beta == found.beta
    with pytest.raises(ValueError, match="family is 'clip' but this beta was calibrated for 'geom"):
        tether.Tethered(SAFE, OPTIMIZED, found, family="clip")


def test_two_rounds_of_a_controller():
    rng = np.random.default_rng(60)
    with tether.Controller(SAFE, alpha=0.12, store="sqlite://", family=Geometric()) as controller:
        for optimized in (None, OPTIMIZED, tether.Gaussian(1.2, 0.8)):
            opened = controller.begin(optimized)
            taken = opened.act(1_000, rng)
            controller.observe(taken.ids, (taken.actions > 1.5).astype(float))
            if optimized is None:
                continue
            assert opened.calibration.family == "geometric"
            assert 0 < opened.beta < np.inf
            assert opened.policy.family.name == "geometric"
            assert (taken.actions > 1.5).mean() < 0.16


class Kernel(tether.Family):
    """The same kernel and nothing else."""

    name = "kernel only"
    log_kernel = Geometric.log_kernel


def test_a_family_without_a_kernel_or_a_name():
    class Nameless(tether.Family):
        log_kernel = Geometric.log_kernel

    class Empty(tether.Family):
        name = "empty"

    with pytest.raises(TypeError, match=r"abstract.*name"):
        Nameless()
    with pytest.raises(TypeError, match=r"abstract.*log_kernel"):
        Empty()

    class Numbered(tether.Family):
        name = 7
        log_kernel = Geometric.log_kernel

    log, *_ = finite_world(np.random.default_rng(61))
    with pytest.raises(TypeError, match="has no name: set the attribute `name` to a string"):
        tether.calibrate(log, alpha=0.3, family=Numbered())
    with pytest.raises(TypeError, match=r"must be derived from tether\.Family"):
        tether.calibrate(log, alpha=0.3, family=object())
    with pytest.raises(ValueError, match="'analytic' does not exist for family 'geometric'"):
        tether.calibrate(log, alpha=0.3, family=Geometric(), test_weight="analytic")
    bare = tether.Log([0.0], [0.0], [0.0])
    with pytest.raises(ValueError, match="'empirical' of family 'geometric' needs proposals"):
        tether.calibrate(bare, alpha=0.3, family=Geometric())


def test_a_family_without_a_sampler_draws_from_finitely_many_actions_only():
    safe = tether.Categorical.from_probabilities([0.5, 0.5])
    optimized = tether.Categorical.from_probabilities([0.1, 0.9])
    rng = np.random.default_rng(62)
    assert len(tether.Tethered(safe, optimized, 1.0, family=Kernel()).sample(9, rng)) == 9
    policy = tether.Tethered(SAFE, OPTIMIZED, 1.0, family=Kernel())
    with pytest.raises(TypeError, match="'kernel only' has no sampler beyond finitely many act"):
        policy.sample(9, rng)
    with pytest.raises(ValueError, match="sampler 'safe' is for clip"):
        tether.Tethered(SAFE, OPTIMIZED, 1.0, family=Geometric(), sampler="safe")


def test_a_family_without_log_accept_or_with_one_above_zero():
    class Half(Kernel):
        optimized_share = Geometric.optimized_share

    class Greedy(Half):
        name = "greedy"

        def log_accept(self, log_ratio, log_beta):
            return log_ratio

    class Undefined(Greedy):
        def log_accept(self, log_ratio, log_beta):
            return np.full_like(log_ratio, np.nan)

    rng = np.random.default_rng(63)
    with pytest.raises(NotImplementedError, match="has an optimized_share but no log_accept"):
        tether.Tethered(SAFE, OPTIMIZED, 1.0, family=Half()).sample(9, rng)
    for family in (Greedy(), Undefined()):
        policy = tether.Tethered(SAFE, OPTIMIZED, 1.0, family=family)
        with pytest.raises(ValueError, match="log_accept must be at most 0 at every ratio"):
            policy.sample(500, rng)


def test_the_limits_are_the_two_policies():
    safe, optimized = np.log([0.5, 0.5]), np.log([0.2, 0.8])
    family = Geometric()
    assert family.log_density(safe, optimized, -np.inf, 0.3) == pytest.approx(safe)
    assert family.log_density(safe, optimized, np.inf, 0.3) == pytest.approx(optimized)
    impossible = np.array([-np.inf, 0.0])
    assert limit_density(impossible, optimized, np.inf).tolist() == [-np.inf, np.log(0.8)]
    assert limit_density(impossible, optimized, -np.inf).tolist() == [-np.inf, 0.0]
    assert limit_density(safe, np.log(0.2), np.inf).shape == (2,)


def test_the_defaults_of_a_family():
    family = Kernel()
    assert (family.smoothness, family.max_draws) == (None, None)
    flags = (family.normalized, family.saturates, family.clips, family.single_draw)
    assert flags == (False, False, False, False)
    assert family.optimized_share(0.0) is None
    assert family.log_ratio_bounds(np.zeros(1), 0.0, 1.0, lambda _: np.zeros(1)) is None
    assert np.isnan(family.log_acceptance(0.0, np.zeros(2))).all()


class Coin(tether.Family):
    """A share 1 − e^−β of the actions is the optimized policy's: single draws by another coin."""

    name, normalized, single_draw = "coin", True, True

    def log_kernel(self, log_safe, log_optimized, log_beta):
        share = self.optimized_share(log_beta)
        return np.logaddexp(log_safe - np.exp(log_beta), np.log(share) + log_optimized)

    def optimized_share(self, log_beta):
        return -np.expm1(-np.exp(log_beta))


def test_a_family_of_single_draws_is_served_by_its_own_coin():
    policy = tether.Tethered(SAFE, OPTIMIZED, 3.0, family=Coin())
    expected = (1 - np.exp(-3.0)) * 1.0
    rng = np.random.default_rng(61)
    for actions in (policy.sample(20_000, rng), tether.serve(policy, 20_000, rng).actions):
        assert actions.mean() == pytest.approx(expected, abs=0.03)


def test_a_share_outside_its_range_is_refused():
    class Wild(Coin):
        name = "wild"

        def optimized_share(self, log_beta):
            return 1.5

    with pytest.raises(ValueError, match=r"'wild' has an optimized_share of 1.5, expected"):
        tether.Tethered(SAFE, OPTIMIZED, 1.0, family=Wild()).sample(3, np.random.default_rng(0))


def test_a_family_that_does_not_saturate_as_it_says_is_not_served_whole():
    class Slow(Geometric):
        """Says that it stops changing at the largest ratio, which it does not."""

        name, saturates = "slow", True

    rng = np.random.default_rng(62)
    scores = np.log(rng.dirichlet(np.ones(4), size=(2, 400)))
    taken = np.array([rng.choice(4, p=np.exp(row)) for row in scores[0]])
    rows = np.arange(400)
    log = tether.Log(
        (taken == 3) & (rng.random(400) < 0.9),
        scores[0][rows, taken],
        scores[1][rows, taken],
        log_safe_all=scores[0],
        log_optimized_all=scores[1],
    )
    for alpha in np.linspace(0.2, 0.6, 9):
        found = tether.calibrate(log, alpha=float(alpha), family=Slow())
        if found.log_beta == np.inf:
            problem = found._problem
            assert problem.risk(found.constraints[0], np.inf) <= alpha * (1 + 1e-6)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"name": ""}, "has no name"),
        ({"name": 3}, "has no name"),
        ({"name": "clip"}, "has the name of a family of the package"),
        ({"name": "budgeted_clip(3)"}, "has the name of a family of the package"),
        ({"smoothness": float("nan")}, "has smoothness nan, expected"),
        ({"smoothness": "1"}, "has smoothness '1', expected"),
        ({"max_draws": 0}, "has max_draws 0, expected"),
        ({"smoothness": True}, "has smoothness True, expected"),
        ({"max_draws": True}, "has max_draws True, expected"),
        ({"max_draws": 4}, "its log_density must include the fallback"),
        ({"clips": True}, "its kernel is not clip's"),
    ],
)
def test_declarations_that_cannot_be_true_are_refused(declared, message):
    members = {"name": "wrong", "log_kernel": lambda self, safe, optimized, beta: safe}
    wrong = type("Wrong", (tether.Family,), members | declared)()
    with pytest.raises((TypeError, ValueError), match=message):
        tether.calibrate(tether.Log([0.0], [0.0], [0.0]), alpha=0.1, family=wrong)
