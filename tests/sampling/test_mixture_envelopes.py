"""Mixture proposals: their envelopes, their weights, and when they win."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import tether
from tether.sampling import (
    Envelope,
    PolicyPair,
    accept_reject,
    adaptive_envelope,
    grid_envelope,
    overlap_envelope,
)

WEIGHTS = st.floats(0, 1)
LOGS = st.floats(-20, 20)


def split(share):
    """Uniform on [0, 1) with probability share and on [1, 2) with the rest: ratios with a gap."""
    density = np.log([share, 1 - share])
    return tether.FunctionPolicy(
        lambda n, rng: np.where(rng.random(n) < share, 0.0, 1.0) + rng.random(n),
        lambda n, actions: density[np.clip(actions, 0, 1.999).astype(int)],
    )


@settings(deadline=None)
@given(WEIGHTS, LOGS, st.lists(LOGS, min_size=1, max_size=20))
def test_no_draw_exceeds_the_tight_envelope(weight, log_beta, log_ratios):
    envelope = Envelope.tight(log_beta, weight)
    assert envelope.always_valid
    assert (envelope.log_accept_probability(np.array(log_ratios)) <= 1e-9).all()
    assert envelope.log_accept_probability(np.array([log_beta]))[0] == pytest.approx(0, abs=1e-9)


@settings(deadline=None)
@given(LOGS, st.lists(LOGS, min_size=1, max_size=30))
def test_the_grid_finds_the_lowest_envelope_by_brute_force(log_beta, log_ratios):
    ratios = np.array(log_ratios)
    found = grid_envelope(ratios, log_beta, points=33)
    tops = [
        Envelope(log_beta, float(weight), 0.0).log_importance_weight(ratios).max()
        for weight in np.linspace(0, 1, 33)
    ]
    assert found.log_constant == pytest.approx(min(tops), abs=1e-9)
    assert found.log_accept_probability(ratios).max() <= 1e-9


def test_a_mixture_wins_where_no_action_has_a_ratio_near_beta():
    safe, optimized = split(0.8), split(0.4)  # ratios 1/2 and 3
    options = {"rng": np.random.default_rng(0), "contexts": 40_000}
    seen = {
        name: tether.Tethered(safe, optimized, 1.0, sampler=name).sample_with_info(**options)[1]
        for name in ("safe", "optimized", "grid")
    }
    # With edges 1/2 and 3 around beta 1, w = 2/3 has the lowest envelope, 0.6 instead of 1.
    assert seen["grid"].safe_weight == pytest.approx(2 / 3, abs=0.01)
    assert seen["safe"].acceptance == pytest.approx(0.6, abs=0.01)
    assert seen["optimized"].acceptance == pytest.approx(0.6, abs=0.01)
    assert seen["grid"].acceptance == pytest.approx(1.0, abs=0.01)


def test_a_broken_envelope_is_noticed_and_its_draws_thrown_away():
    """An envelope learned where ratios had a gap, used where they have none."""
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.0)
    gap = grid_envelope(np.array([-3.0, 3.0]), 0.0)
    assert not gap.always_valid
    for contexts in (3000, np.zeros(3000)):
        actions, info = accept_reject(
            PolicyPair(safe, optimized), contexts, np.random.default_rng(1), gap
        )
        assert info.scored > info.draws
        assert stats.kstest(actions - 0.5, _two_tails).pvalue > 1e-3


def _two_tails(x):
    """The distribution function of min(N(0, 1), N(1, 1)) over its integral, around one half."""
    tail = stats.norm.cdf(-0.5)
    left, right = stats.norm.cdf(x - 0.5), 2 * tail - stats.norm.sf(x + 0.5)
    return np.where(x < 0, left, right) / (2 * tail)


def test_overlap_is_half_where_target_and_policies_are_alike():
    same = np.zeros(100)
    assert overlap_envelope(same, same, 0.0).safe_weight == pytest.approx(0.5)


def test_overlap_prefers_the_policy_next_to_the_target():
    rng = np.random.default_rng(2)
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(2.0)
    pair = PolicyPair(safe, optimized)
    ratios = [pair.propose(weight, 20_000, rng).log_ratio for weight in (1.0, 0.0)]
    weights = [overlap_envelope(*ratios, log_beta).safe_weight for log_beta in (-9.0, 0.0, 9.0)]
    assert weights[0] > 0.6 > weights[1] > 0.4 > weights[2]
    # At beta 1e-4 the target is the safe policy: overlaps are 1 and 2Φ(−1).
    assert weights[0] == pytest.approx(1 / (1 + 2 * stats.norm.cdf(-1)), abs=0.02)


def test_adaptive_shifts_to_where_more_is_kept():
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(2.0)
    for log_beta, side in ((-4.0, 1), (4.0, -1)):
        _, info = accept_reject(
            PolicyPair(safe, optimized),
            60_000,
            np.random.default_rng(3),
            adaptive_envelope(log_beta),
        )
        assert side * (info.safe_weight - 0.5) > 0.2
        assert side * (info.acceptance_safe - info.acceptance_optimized) > 0


def test_a_fixed_proposal_does_not_adapt():
    envelope = Envelope.tight(0.0, 0.3)
    assert envelope.adapted([10, 10], [10, 0]) is envelope


@pytest.mark.parametrize("weight", [-0.1, 1.1, np.nan])
def test_weights_outside_one_are_refused(weight):
    with pytest.raises(ValueError, match="weight"):
        Envelope.tight(0.0, weight)


def test_disjoint_policies_have_no_proposal():
    with pytest.raises(ValueError, match="nothing to propose"):
        grid_envelope(np.array([-np.inf, np.inf]), 0.0)


@pytest.mark.parametrize("sampler", ["grid", "overlap"])
def test_a_pilot_that_shows_nothing_is_no_error_in_contexts(sampler):
    """Both policies can take one action in fifty, and one draw of each seldom is such a one."""

    def box(low):
        return tether.FunctionPolicy(
            lambda x, rng: low + rng.random(len(x)),
            lambda x, a: np.where((a >= low) & (a < low + 1), 0.0, -np.inf),
        )

    policy = tether.Tethered(box(0.0), box(0.98), 1.0, sampler=sampler, outside="never")
    rng = np.random.default_rng(0)
    drawn = np.concatenate([policy.sample(np.zeros(1), rng) for _ in range(20)])
    assert ((drawn >= 0.98) & (drawn < 1)).all()
