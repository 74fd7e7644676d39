"""The model of a plan, against simulated calibrations and numerical integrals."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import tether
from tether._core.safe_excess import safe_mean
from tether.control.plan_model import PlanModel


@pytest.mark.parametrize(
    ("alpha", "safe_risk", "optimized_risk", "spread", "rows"),
    [(0.12, 0.06, 0.3, 1.0, 1000), (0.12, 0.06, 0.4, 1.5, 2000), (0.05, 0.02, 0.1, 1.0, 4000)],
)
def test_the_promise_to_expect_is_what_calibrations_state(
    alpha, safe_risk, optimized_risk, spread, rows
):
    model = PlanModel(1.0, safe_risk, optimized_risk, spread)
    rng = np.random.default_rng(1)
    shift = np.log([(1 - optimized_risk) / (1 - safe_risk), optimized_risk / safe_risk])
    stated = []
    for _ in range(40):
        harmful = (rng.random(rows) < safe_risk).astype(int)
        ratio = shift[harmful] + spread * rng.normal(size=rows) - spread**2 / 2
        drawn = (rng.random(rows) < optimized_risk).astype(int)
        top = shift[drawn] + spread * rng.normal(size=rows) + spread**2 / 2
        log = tether.Log(harmful, np.zeros(rows), ratio)
        proposals = tether.Proposals(np.zeros(rows), top)
        stated.append(tether.calibrate(log, proposals, alpha=alpha).promise)
    expected = model.outlook(alpha, rows).promise - alpha
    assert expected == pytest.approx(np.median(stated) - alpha, rel=0.25)


def test_clipped_moments_are_those_of_a_lognormal_ratio():
    model = PlanModel(1.0, 0.1, 0.25, 0.8)
    ratio = np.exp(
        math.log(0.25 / 0.1) - 0.32 + 0.8 * norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    )
    for log_beta in (-2.0, 0.0, 1.5):
        place = int(np.argmin(np.abs(model._grid - log_beta)))
        clipped = np.minimum(ratio, math.exp(model._grid[place]))
        found = model._of_harmful
        assert found.mean[place] == pytest.approx(clipped.mean(), rel=1e-3)
        assert found.square[place] == pytest.approx(np.square(clipped).mean(), rel=1e-3)
        assert found.tail[place] == pytest.approx((ratio > math.exp(log_beta)).mean(), abs=1e-3)


def test_the_existence_term_is_that_of_the_estimate_on_average():
    model, rng = PlanModel(1.0, 0.1, 0.1, 1.0), np.random.default_rng(2)
    logs = (rng.random((4000, 150)) < 0.1).astype(float)
    estimates = [safe_mean(log, 1.0).excess(0.1) for log in logs]
    assert model._existence(0.1, 150) == pytest.approx(np.mean(estimates), rel=0.05)


def test_more_rows_never_promise_less():
    model = PlanModel(1.0, 0.06, 0.3, 1.0)
    betas = [model.boldest(0.12, rows) for rows in (200, 400, 1000, 10_000, 1_000_000)]
    assert all(found is not None for found in betas)
    assert sorted(found.beta for found in betas) == [found.beta for found in betas]
    assert betas[-1].promise == pytest.approx(0.12, rel=0.01)
