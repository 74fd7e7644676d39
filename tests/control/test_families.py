"""Families: densities that integrate to one, limits, and the smoothness they claim."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.example_logs import finite_world
from tether.control.densities import log_ratio_limit
from tether.control.families import find_family

FAMILIES = [tether.Clip(), tether.Mix(), tether.BudgetedClip(1), tether.BudgetedClip(7)]


def policies(seed, actions=12, spread=2.0):
    scores = spread * np.random.default_rng(seed).normal(size=(2, actions))
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def density(family, safe, optimized, log_beta):
    log_psi = 0.0
    if not family.normalized and np.isfinite(log_beta):
        log_psi = np.logaddexp.reduce(family.log_kernel(safe, optimized, log_beta))
    return family.log_density(safe, optimized, log_beta, log_psi), log_psi


@given(st.integers(0, 2**32 - 1), st.floats(-12, 12), st.sampled_from(FAMILIES))
def test_densities_sum_to_one(seed, log_beta, family):
    logs, _ = density(family, *policies(seed), log_beta)
    assert np.exp(logs).sum() == pytest.approx(1)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_limits_are_the_two_policies(family):
    safe, optimized = policies(1)
    assert density(family, safe, optimized, -np.inf)[0] == pytest.approx(safe)
    assert density(family, safe, optimized, np.inf)[0] == pytest.approx(optimized)
    assert density(family, safe, optimized, -40.0)[0] == pytest.approx(safe)
    assert density(family, safe, optimized, 40.0)[0] == pytest.approx(optimized)


@given(
    st.integers(0, 2**32 - 1),
    st.floats(-12, 12),
    st.floats(-12, 12),
    st.sampled_from([tether.Clip(), tether.Mix()]),
)
@settings(max_examples=300)
def test_clip_and_mix_are_1_log_lipschitz(seed, one, other, family):
    """The lemma: log density moves no faster than log beta, at every action."""
    safe, optimized = policies(seed, spread=4.0)
    moved = density(family, safe, optimized, one)[0] - density(family, safe, optimized, other)[0]
    assert np.abs(moved).max() <= family.smoothness * abs(one - other) + 1e-9


def test_the_constant_one_is_sharp():
    """An unclipped action whose companions are all clipped: its density falls like 1/β."""
    safe, optimized = np.log([0.999999, 0.000001]), np.log([0.999999, 0.000001])
    optimized = optimized + np.array([0.0, -5.0])
    moved = density(tether.Clip(), safe, optimized, -1.0)[0][1]
    moved -= density(tether.Clip(), safe, optimized, -2.0)[0][1]
    assert moved == pytest.approx(-1.0, abs=1e-4)


def test_mix_moves_with_log_odds():
    """The derivative of log density by log beta is a difference of two shares."""
    safe, optimized = policies(3)
    beta, step = 0.7, 1e-6
    slope = density(tether.Mix(), safe, optimized, np.log(beta) + step)[0]
    slope = (slope - density(tether.Mix(), safe, optimized, np.log(beta) - step)[0]) / (2 * step)
    ratio = np.exp(optimized - safe)
    assert slope == pytest.approx(beta * ratio / (1 + beta * ratio) - beta / (1 + beta), abs=1e-6)


def test_mix_takes_a_beta_for_each_action():
    rng = np.random.default_rng(3)
    safe, optimized = rng.normal(size=(2, 7)) * 10
    safe[1] = optimized[2] = -np.inf
    betas = np.array([-np.inf, 0.3, -800.0, 2.0, np.inf, 800.0, np.inf])
    safe[6] = -np.inf
    found = tether.Mix().log_density(safe, optimized, betas, 0.0)
    for k, beta in enumerate(betas.tolist()):
        one = tether.Mix().log_density(safe[k : k + 1], optimized[k : k + 1], beta, 0.0)
        assert found[k] == one[0]


@pytest.mark.parametrize("log_beta", [-1.2, 0.0, 0.9])
@pytest.mark.parametrize("draws", [1, 3])
def test_budgeted_clip_is_what_giving_up_does(log_beta, draws):
    """The distribution of the sampler itself: N draws, each kept or not, then the safe policy."""
    safe, optimized = policies(5, actions=6)
    propose = np.exp(safe if log_beta < 0 else optimized)
    envelope = np.exp(log_beta) if log_beta < 0 else 1.0
    keep = np.exp(np.minimum(optimized, safe + log_beta)) / (envelope * propose)
    rejected = 1 - (propose * keep).sum()
    outcome = sum(rejected**k * propose * keep for k in range(draws))
    outcome = outcome + rejected**draws * np.exp(safe)
    logs, log_psi = density(tether.BudgetedClip(draws), safe, optimized, log_beta)
    assert np.exp(logs) == pytest.approx(outcome)
    assert np.exp(tether.BudgetedClip(draws).log_averages(log_beta, log_psi)[1]) == (
        pytest.approx(rejected**draws)
    )


@given(st.integers(0, 2**32 - 1), st.floats(-5, 5), st.sampled_from(FAMILIES))
def test_ratio_bounds_bound(seed, log_beta, family):
    safe, optimized = policies(seed)
    logs, log_psi = density(family, safe, optimized, log_beta)
    bound = log_ratio_limit(family, log_beta, np.array([log_psi]))
    assert (logs - safe).max() <= bound[0] + 1e-9


def test_acceptance_of_clip():
    safe, optimized = policies(8)
    for log_beta in (-1.0, 1.0):
        log_psi = density(tether.Clip(), safe, optimized, log_beta)[1]
        accepted = np.exp(tether.Clip().log_acceptance(log_beta, np.array([log_psi])))[0]
        assert accepted == pytest.approx(np.exp(log_psi) / min(np.exp(log_beta), 1))
    assert tether.Clip().log_acceptance(np.inf, np.zeros(1))[0] == 0
    assert tether.Mix().log_acceptance(0.3, np.zeros(1))[0] == 0


def test_nothing_acts_where_the_safe_policy_cannot():
    safe, optimized = np.log([0.5, 0.5]), np.log([0.4, 0.3])
    safe, optimized = np.append(safe, -np.inf), np.append(optimized, np.log(0.3))
    for log_beta in (-np.inf, -1.0, 2.0, np.inf):
        assert density(tether.Clip(), safe, optimized, log_beta)[0][2] == -np.inf


def test_names_and_errors():
    assert find_family("mix") == tether.Mix()
    assert find_family("budgeted_clip(5)") == tether.BudgetedClip(5)
    assert find_family(tether.BudgetedClip(2).name) == tether.BudgetedClip(2)
    with pytest.raises(ValueError, match=r"family must be 'clip', 'mix'.*got 'clipp'"):
        find_family("clipp")
    with pytest.raises(TypeError, match=r"family must be derived from tether\.Family"):
        find_family(object())
    with pytest.raises(ValueError, match="max_draws must be at least 1, got 0"):
        tether.BudgetedClip(0)
    with pytest.raises(TypeError, match=r"max_draws must be an integer, got 2\.5"):
        tether.BudgetedClip(2.5)
    with pytest.raises(TypeError, match=r"not a class: write Clip\(\)"):
        find_family(tether.Clip)


def test_budgeted_clip_is_between_clip_and_safe():
    rng = np.random.default_rng(16)
    for _ in range(10):
        log, *_ = finite_world(rng, rows=80)
        betas = [
            tether.calibrate(log, alpha=0.25, family=family).log_beta
            for family in (tether.BudgetedClip(1), tether.BudgetedClip(3), "clip")
        ]
        found = tether.calibrate(log, alpha=0.25, family=tether.BudgetedClip(10_000))
        assert found.log_beta == pytest.approx(betas[-1], abs=0.05) or found.log_beta == betas[-1]
