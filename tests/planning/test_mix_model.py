"""A plan of mix, against calibrations of logs that are the truth, and of simulated ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tests.planning.plan_truths import calibrated, own_model


def simulated(rng, safe_risk, optimized_risk, spread, rows):
    """A log and proposals of the model: normal log ratios, shifted by the harm of actions."""
    shift = np.log([(1 - optimized_risk) / (1 - safe_risk), optimized_risk / safe_risk])
    harmful = (rng.random(rows) < safe_risk).astype(int)
    ratio = shift[harmful] + spread * rng.normal(size=rows) - spread**2 / 2
    drawn = (rng.random(rows) < optimized_risk).astype(int)
    top = shift[drawn] + spread * rng.normal(size=rows) + spread**2 / 2
    log = tether.Log(harmful, np.zeros(rows), ratio)
    return log, tether.Proposals(np.zeros(rows), top)


@pytest.mark.parametrize(
    ("alpha", "safe_risk", "optimized_risk", "spread", "rows"),
    [(0.12, 0.06, 0.3, 1.0, 1000), (0.05, 0.02, 0.1, 1.0, 4000), (0.12, 0.06, 0.15, 0.5, 500)],
)
def test_beta_and_promise_are_what_calibrations_find(
    alpha, safe_risk, optimized_risk, spread, rows
):
    world = {"safe_risk": safe_risk, "optimized_risk": optimized_risk, "log_ratio_spread": spread}
    made = tether.plan(alpha=alpha, rows=rows, family="mix", **world)
    of_clip = tether.plan(alpha=alpha, rows=rows, **world)
    rng = np.random.default_rng(1)
    found, from_log = [], []
    for _ in range(40):
        log, proposals = simulated(rng, safe_risk, optimized_risk, spread, rows)
        calibration = tether.calibrate(log, proposals, alpha=alpha, family="mix")
        found.append((calibration.beta, calibration.promise - alpha))
        own = tether.plan(log, alpha=alpha, rows=rows, family="mix")
        from_log.append((own.betas[0][1], own.promises[0][1] - alpha))
    beta, more = np.median(found, axis=0)
    assert made.betas[0][1] == pytest.approx(beta, rel=0.15)
    assert made.promises[0][1] - alpha == pytest.approx(more, rel=0.3)
    assert np.median(from_log, axis=0) == pytest.approx([beta, more], rel=0.25)
    assert of_clip.betas[0][1] > 1.4 * beta, "the plan of clip is another"


@given(st.integers(0, 10**6), st.integers(5, 60), st.sampled_from([0.15, 0.3, 0.6]))
def test_with_the_rows_as_the_truth_beta_and_stability_are_those_of_the_log(seed, rows, alpha):
    rng = np.random.default_rng(seed)
    loss = (rng.random(rows) < 0.15).astype(float) if seed % 2 else rng.random(rows) * 0.3
    log_ratio = np.where(rng.random(rows) < 0.2, -600.0, rng.normal(0.5 * loss, 0.8))
    found = calibrated("mix", loss, log_ratio, alpha)
    beta, stability = own_model("mix", loss, log_ratio)._solve(alpha, rows)
    assert beta == pytest.approx(found.beta, rel=1e-6)
    if found.exists:
        assert stability == pytest.approx(found.stability, rel=1e-6, abs=1e-12)


def test_with_many_rows_beta_is_where_the_risk_of_the_mixture_is_alpha():
    world = {"alpha": 0.12, "safe_risk": 0.06, "family": "mix"}
    made = tether.plan(optimized_risk=0.3, max_ratio=5, rows=10**9, **world)
    assert made.betas[0][1] == pytest.approx((0.12 - 0.06) / (0.3 - 0.12), rel=1e-5)
    harmless = tether.plan(optimized_risk=0.05, rows=10**6, **world)
    assert harmless.betas == ((10**6, math.inf),)


def test_a_largest_ratio_that_is_known_is_used():
    """As in a calibration with a `min_propensity`, whose next action may weigh so much."""
    rng = np.random.default_rng(0)
    action = rng.integers(4, size=2000)
    loss = (rng.random(2000) < np.array([0.02, 0.05, 0.1, 0.3])[action]).astype(float)
    new = tether.Categorical.from_probabilities([0.1, 0.1, 0.2, 0.6])
    given = {"propensities": np.full(2000, 0.25), "min_propensity": 0.25}
    log = tether.make_log(None, new, None, action, loss, **given)
    planned = tether.plan(log, alpha=0.15, family="mix", rows=2000)
    found = tether.calibrate(log, alpha=0.15, family="mix")
    assert planned.max_ratio == 4
    assert planned.betas[0][1] == pytest.approx(found.beta, rel=0.03)
    assert planned.promises[0][1] == pytest.approx(found.promise, rel=0.03)


@pytest.mark.parametrize("spread", [5e-324, 1e-3, 99.0])
def test_extreme_spreads_are_planned(spread):
    made = tether.plan(promise=0.1, safe_risk=0.05, family="mix", log_ratio_spread=spread)
    assert made.possible
    assert all(np.isfinite(stated) for _, stated in made.promises)


def test_a_curve_is_that_of_the_family():
    given = {"safe_risk": 0.06, "optimized_risk": 0.3, "promise": 0.12}
    mix, clip = (tether.plan(**given, family=each) for each in ("mix", "clip"))
    for made in (mix, clip):
        levels = made.curve(points=3)
        assert levels["rows_needed"][levels["promise"] == 0.12] == [made.rows_needed]
    assert mix.rows_needed != clip.rows_needed
    assert "_model" not in mix.to_dict()
