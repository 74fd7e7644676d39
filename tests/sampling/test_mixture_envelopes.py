"""How the weight of a mixture proposal is chosen: by grid, by overlap, adaptively."""

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

LOGS = st.floats(-20, 20)


@settings(deadline=None)
@given(LOGS, st.lists(LOGS, min_size=1, max_size=30))
def test_the_grid_finds_the_lowest_envelope_by_brute_force(log_beta, log_ratios):
    ratios = np.array(log_ratios)
    found = grid_envelope(ratios, log_beta, points=33)
    constants = [
        Envelope(log_beta, float(weight), 0.0).log_importance_weight(ratios).max()
        for weight in np.linspace(0, 1, 33)
    ]
    assert found.log_constant == pytest.approx(min(constants), abs=1e-9)
    assert found.log_accept_probability(ratios).max() <= 1e-9


def test_the_overlap_weight_is_half_for_equal_policies():
    same = np.zeros(100)
    assert overlap_envelope(same, same, 0.0).safe_weight == pytest.approx(0.5)


def test_the_overlap_weight_favours_the_policy_closer_to_the_target():
    rng = np.random.default_rng(2)
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(2.0)
    pair = PolicyPair(safe, optimized)
    ratios = [pair.propose(weight, 20_000, rng).log_ratio for weight in (1.0, 0.0)]
    weights = [overlap_envelope(*ratios, log_beta).safe_weight for log_beta in (-9.0, 0.0, 9.0)]
    assert weights[0] > 0.6 > weights[1] > 0.4 > weights[2]
    # At beta 1e-4 the target is the safe policy: overlaps are 1 and 2Φ(−1).
    assert weights[0] == pytest.approx(1 / (1 + 2 * stats.norm.cdf(-1)), abs=0.02)


def test_the_adaptive_weight_shifts_to_the_policy_accepted_more_often():
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


def test_disjoint_policies_are_refused():
    with pytest.raises(ValueError, match="nothing to propose"):
        grid_envelope(np.array([-np.inf, np.inf]), 0.0)
