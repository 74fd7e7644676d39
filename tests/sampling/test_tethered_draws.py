"""Draws from a tethered policy whose actions cannot be listed."""

import numpy as np
import pytest

import tether
from tether.sampling import PolicyPair
from tether.sampling.tethered_draws import draw_tethered

SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)
PAIR = PolicyPair(SAFE, OPTIMIZED)


def draw(family, log_beta, count=20_000, sampler="auto"):
    rng = np.random.default_rng(0)
    return draw_tethered(PAIR, family, log_beta, count, rng, sampler=sampler, max_draws=100_000)


def test_a_single_draw_family_takes_the_optimized_policy_by_its_share():
    actions, info = draw(tether.Mix(), np.log(3.0))
    assert info.method == "mix"
    assert info.draws == len(actions) == 20_000
    assert info.draws_safe / info.draws == pytest.approx(0.25, abs=4 * np.sqrt(0.1875 / 20_000))


@pytest.mark.parametrize("sampler", ["auto", "safe", "optimized", "adaptive"])
def test_clip_draws_the_same_distribution_whatever_proposes(sampler):
    actions, info = draw(tether.Clip(), 0.0, sampler=sampler)
    grid = np.linspace(-8, 8, 200_001)
    density = np.exp(
        np.minimum(SAFE.log_prob(len(grid), grid), OPTIMIZED.log_prob(len(grid), grid))
    )
    mean = (grid * density).sum() / density.sum()
    assert actions.mean() == pytest.approx(mean, abs=4 * actions.std() / np.sqrt(len(actions)))
    assert 0 < info.acceptance <= 1


def test_a_budget_ends_with_the_safe_policy():
    far = PolicyPair(SAFE, tether.Gaussian(9.0))
    actions, info = draw_tethered(
        far, tether.BudgetedClip(1), 0.0, 500, np.random.default_rng(0), sampler="auto", max_draws=9
    )
    assert info.fallbacks > 490
    assert abs(actions.mean()) < 0.3


def test_a_family_without_a_sampler_says_what_it_needs():
    class Bare(tether.Family):
        name = "bare"

        def log_kernel(self, log_safe, log_optimized, log_beta):
            return log_safe

    with pytest.raises(TypeError, match=r"family 'bare' has no sampler .* optimized_share"):
        draw(Bare(), 0.0)


def test_an_optimized_share_without_log_accept_is_an_error():
    class Half(tether.Family):
        name = "half"

        def log_kernel(self, log_safe, log_optimized, log_beta):
            return log_safe

        def optimized_share(self, log_beta):
            return 0.5

    with pytest.raises(NotImplementedError, match="has an optimized_share but no log_accept"):
        draw(Half(), 0.0)
