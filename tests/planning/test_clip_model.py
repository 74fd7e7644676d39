"""A plan of clip: on a log that is the truth itself, it is the calibration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tests.planning.plan_truths import calibrated, own_model


@given(st.integers(0, 10**6), st.integers(5, 60), st.sampled_from([0.15, 0.3, 0.6]))
def test_with_the_rows_as_the_truth_beta_and_stability_are_those_of_the_log(seed, rows, alpha):
    rng = np.random.default_rng(seed)
    loss = (rng.random(rows) < 0.15).astype(float) if seed % 2 else rng.random(rows) * 0.3
    log_ratio = rng.normal(0.5 * loss, 0.8)
    found = calibrated("clip", loss, log_ratio, alpha)
    beta, stability = own_model("clip", loss, log_ratio)._solve(alpha, rows)
    assert beta == pytest.approx(found.beta, rel=1e-6)
    if found.exists:
        assert stability == pytest.approx(found.stability, rel=1e-6, abs=1e-9)


def test_a_policy_that_never_takes_some_actions_is_planned_with_its_blend():
    rng = np.random.default_rng(0)
    action = rng.integers(4, size=4000)
    loss = (rng.random(4000) < np.array([0.0, 0.02, 0.05, 0.2])[action]).astype(float)
    optimized = np.log([1e-300, 0.2, 0.3, 0.5])
    optimized[0] = -np.inf
    log = tether.Log(loss, np.full(4000, np.log(0.25)), optimized[action])
    proposals = tether.Proposals(np.full(4000, np.log(0.25)), np.full(4000, optimized[3]))
    found = tether.calibrate(log, proposals, alpha=0.1)
    made = tether.plan(log, alpha=0.1, rows=4000)
    assert found.blend > 0
    assert made.betas[0][1] == pytest.approx(found.beta, rel=0.02)
