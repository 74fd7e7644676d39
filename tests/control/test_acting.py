"""Logs that say who acted in each row, as a promise with a confidence needs it."""

import dataclasses

import numpy as np
import pytest

import tether
from tether.control.acting import Acting
from tether.control.acting_weights import ActingWeights
from tether.control.constraint import Constraint
from tether.control.families import find_family
from tether.control.high_probability import certified_beta
from tether.control.problem import pose


def two_rounds(rng, rows=1500):
    """Rows of the safe policy, N(0, 1), and then of N(0.5, 1); scores and the mixture."""
    action = rng.normal(size=rows) + np.repeat([0.0, 0.5], rows // 2)
    normal = lambda mean: -((action - mean) ** 2) / 2  # noqa: E731
    safe, other, optimized = normal(0.0), normal(0.5), normal(1.0)
    mix = np.logaddexp(safe, other) - np.log(2)
    logged = np.where(np.arange(rows) < rows // 2, safe, other)
    return action, safe, optimized, mix, logged


def test_a_log_carries_who_acted():
    rng = np.random.default_rng(0)
    action, safe, optimized, mix, logged = two_rounds(rng)
    limits = np.where(np.arange(1500) < 750, 0.0, np.inf)
    acting = Acting(logged, log_base_limit=limits)
    log = tether.Log(action > 2, safe, optimized, log_mix=mix, acting=acting)
    assert log.acting is acting
    assert tether.Log(action > 2, safe, optimized).acting is None
    drawn = 1 + rng.normal(size=50)
    scores = [-(drawn**2) / 2, -((drawn - 1) ** 2) / 2]
    draw_mix = np.logaddexp(scores[0], -((drawn - 0.5) ** 2) / 2) - np.log(2)
    proposals = tether.Proposals(*scores, log_mix=draw_mix)
    found = tether.calibrate(log, proposals, alpha=0.2, confidence=0.9)
    problem = pose(log, proposals, find_family("clip"), "empirical")
    direct = certified_beta(problem, [Constraint("loss", 0.2, 1.0)], 0.9)
    assert found.log_beta == direct.log_beta > -np.inf
    assert found.upper_bounds == direct.risk_bounds
    log_weight, log_limit = ActingWeights(problem, log.acting).at(0.0)
    assert log_weight == pytest.approx(np.minimum(optimized, safe) - logged)
    assert np.array_equal(log_limit, limits)
    # Without it such a log has no certificate, but a calibration in expectation.
    silent = tether.Log(action > 2, safe, optimized, log_mix=mix)
    with pytest.raises(ValueError, match=r"confidence needs acting=tether\.control\.Acting"):
        tether.calibrate(silent, proposals, alpha=0.2, confidence=0.9)
    assert tether.calibrate(silent, proposals, alpha=0.2).exists


def test_a_blend_keeps_who_acted():
    """Only the scores of the optimized policy change."""
    rng = np.random.default_rng(1)
    action, safe, optimized, _, _ = two_rounds(rng)
    optimized = np.where(action < -1, -np.inf, optimized)
    acting = Acting(safe)
    log = tether.Log(action > 2, safe, optimized, acting=acting)
    problem = pose(log, None, find_family("clip"), "empirical", 0.05)
    assert problem.blend == 0.05
    assert problem.log.acting is acting


def test_where_the_safe_policy_always_acted_it_may_be_said_or_not():
    rng = np.random.default_rng(2)
    action = rng.normal(size=1000)
    scores = -(action**2) / 2, -((action - 1) ** 2) / 2
    plain = tether.Log(action > 1.5, *scores)
    stated = tether.Log(action > 1.5, *scores, acting=Acting(scores[0], None, np.zeros(1000)))
    found = [tether.calibrate(log, alpha=0.12, confidence=0.9) for log in (plain, stated)]
    assert found[0].log_beta == found[1].log_beta > -np.inf
    assert found[0].upper_bounds == pytest.approx(found[1].upper_bounds)


def test_errors():
    with pytest.raises(ValueError, match="log_logged"):
        Acting(np.array([0.0, np.nan]))
    with pytest.raises(ValueError, match="log_logged_all"):
        Acting(np.zeros(2), np.full((2, 2), np.nan))
    acting = Acting(np.zeros(2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        acting.log_logged = np.ones(2)
    log = tether.Log(np.zeros(3), np.zeros(3), np.zeros(3), acting=acting)
    with pytest.raises(ValueError, match=r"log_logged has 2 row"):
        tether.calibrate(log, alpha=0.5, confidence=0.5)
