"""The model of a plan, against simulated calibrations and numerical integrals."""

import numpy as np
import pytest

import tether
from tether._core.safe_excess import safe_mean
from tether.control.plan_clip import ClipModel


@pytest.mark.parametrize(
    ("alpha", "safe_risk", "optimized_risk", "spread", "rows"),
    [(0.12, 0.06, 0.3, 1.0, 1000), (0.12, 0.06, 0.4, 1.5, 2000), (0.05, 0.02, 0.1, 1.0, 4000)],
)
def test_the_promise_to_expect_is_what_calibrations_state(
    alpha, safe_risk, optimized_risk, spread, rows
):
    model = ClipModel(1.0, safe_risk, optimized_risk, spread)
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


def test_the_existence_term_is_that_of_the_estimate_on_average():
    model, rng = ClipModel(1.0, 0.1, 0.1, 1.0), np.random.default_rng(2)
    logs = (rng.random((4000, 150)) < 0.1).astype(float)
    estimates = [safe_mean(log, 1.0).excess(0.1) for log in logs]
    assert model.existence(0.1, 150) == pytest.approx(np.mean(estimates), rel=0.05)


def test_more_rows_never_promise_less():
    model = ClipModel(1.0, 0.06, 0.3, 1.0)
    betas = [model.boldest(0.12, rows) for rows in (200, 400, 1000, 10_000, 1_000_000)]
    assert all(found is not None for found in betas)
    assert sorted(found.beta for found in betas) == [found.beta for found in betas]
    assert betas[-1].promise == pytest.approx(0.12, rel=0.01)
