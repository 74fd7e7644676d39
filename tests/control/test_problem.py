"""Log, proposals, family and test weight together: weights, shares, and what does not fit."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import finite_world
from tether.control.problem import pose


def test_shares_are_the_normalized_weights():
    rng = np.random.default_rng(13)
    for mixed in (False, True):
        log, _, lo, hi = finite_world(rng, mixed=mixed)
        for test_weight in ("empirical", 3.0):
            problem = pose(log, None, tether.Clip(), test_weight)
            for log_beta in np.linspace(lo, hi, 7):
                fast, last = problem.shares(log_beta)
                rows, test = problem.log_weights(log_beta)
                total = np.exp(rows).sum() + np.exp(test)
                assert fast == pytest.approx(np.exp(rows) / total)
                assert last == pytest.approx(np.exp(test) / total)


GOOD = {
    "loss": [0.0, 1.0, 0.5],
    "log_safe": [-1.0, -2.0, -1.5],
    "log_optimized": [-1.1, -0.3, -2.0],
}


def log(**changes):
    return tether.Log(**{**GOOD, **changes})


def test_log_and_proposals_must_fit():
    proposals = tether.Proposals([0.0], [0.0])
    with pytest.raises(TypeError, match=r"log must be a tether.Log, got dict"):
        tether.calibrate({}, proposals, alpha=0.1)
    with pytest.raises(TypeError, match=r"proposals must be tether.Proposals, got \[1.0\]"):
        tether.calibrate(log(), [1.0], alpha=0.1)
    with pytest.raises(ValueError, match="the log has log_mix but the proposals has none"):
        tether.calibrate(log(log_mix=[-1, -1, -1]), proposals, alpha=0.1)
    mixed = tether.Proposals([0.0], [0.0], log_mix=[0.0])
    with pytest.raises(ValueError, match="the proposals has log_mix but the log has none"):
        tether.calibrate(log(), mixed, alpha=0.1)
    with pytest.raises(ValueError, match="needs safe_share in the log"):
        tether.calibrate(log(log_mix=[-1, -1, -1]), mixed, alpha=0.1, test_weight="analytic")
    shared = log(log_mix=[-1, -1, -1], safe_share=0.25)
    assert tether.calibrate(shared, mixed, alpha=0.6, test_weight="analytic").rows == 3
    outside = tether.Proposals([0.0, -np.inf], [0.0, -1.0])
    with pytest.raises(ValueError, match="draw 1 has log_safe −inf"):
        tether.calibrate(log(), outside, alpha=0.1, family="mix")
    assert tether.calibrate(log(), outside, alpha=0.1).rows == 3


def test_a_draw_that_the_mixture_cannot_make():
    log = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50), log_mix=np.zeros(50))
    proposals = tether.Proposals(
        np.append(np.zeros(5), -3.0), np.zeros(6), log_mix=np.append(np.zeros(5), -np.inf)
    )
    with pytest.raises(ValueError, match="draw 5 has log_mix −inf and a finite log_safe"):
        tether.calibrate(log, proposals, alpha=0.1)
    shared = tether.Log(
        np.zeros(50), np.zeros(50), np.zeros(50), log_mix=np.zeros(50), safe_share=0.5
    )
    sparse = tether.Proposals(np.zeros(6), np.zeros(6), log_mix=np.append(np.zeros(5), -3.0))
    with pytest.raises(ValueError, match="draw 5 has log_mix -3, below log_safe"):
        tether.calibrate(shared, sparse, alpha=0.1)


def test_supports_that_do_not_meet():
    ones, zeros, never = np.ones(20), np.zeros(20), np.full(20, -np.inf)
    nothing = tether.Log(ones, zeros, never)
    with pytest.raises(ValueError, match="no draw is possible under both policies"):
        tether.calibrate(nothing, tether.Proposals(never, zeros), alpha=0.1)
    for how in ({}, {"test_weight": 2.0}, {"test_weight": "analytic"}):
        found = tether.calibrate(nothing, tether.Proposals(zeros, zeros), alpha=0.1, **how)
        assert not found.exists
    with pytest.raises(ValueError, match="no draw is possible under both policies"):
        tether.calibrate(nothing, alpha=0.1, test_weight=2.0, blend=0)
    blended = tether.calibrate(nothing, alpha=0.1, test_weight=2.0)
    assert (blended.blend, blended.exists) == (0.01, False)


def test_the_search_for_mix_begins_where_no_ratio_counts():
    """A row with a ratio of e^800 has most of the weight at betas far below the smallest ratio."""
    log = tether.Log([1.0] * 3 + [0.0] * 7, np.zeros(10), np.array([-600.0] * 9 + [800.0]))
    proposals = tether.Proposals(np.zeros(2), np.array([-700.0, 1.0]))
    found = tether.calibrate(log, proposals, alpha=0.35, family="mix", test_weight=4.0)
    assert not found.exists  # at a beta of zero the risk is (3 + 4)/(10 + 4)
