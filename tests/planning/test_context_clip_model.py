"""A plan of clip in contexts with tables, against the calibration of its own log and of others."""

import math
import warnings

import numpy as np
import pytest
from benchmarks.plan_worlds import contexts, uneven_contexts
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

import tether
from tests.planning.plan_truths import assert_logs_pass_as_planned
from tests.scale import scaled
from tether.planning.context_clip_model import ContextClipModel
from tether.planning.representative_log import RepresentativeLog


def log_of(rng, rows, loss=None, never=False):
    """A log of contexts that are all different, with tables of four actions."""
    log_safe = log_softmax(rng.normal(size=(rows, 4)), axis=1)
    log_optimized = log_softmax(log_safe + rng.gamma(1.0, size=(rows, 1)) * rng.normal(size=4), 1)
    action = (rng.random((rows, 1)) > np.cumsum(np.exp(log_safe), axis=1)[:, :3]).sum(axis=1)
    if never:
        log_optimized[:, 0] = -np.inf
        log_optimized = log_softmax(log_optimized, axis=1)
    at = np.arange(rows), action
    if loss is None:
        loss = (rng.random(rows) < 0.05 + 0.1 * (action == 3)).astype(float)
    return tether.Log(
        {"loss": loss},
        log_safe[at],
        log_optimized[at],
        log_safe_all=log_safe,
        log_optimized_all=log_optimized,
    )


@given(st.integers(0, 10**6), st.integers(15, 60), st.sampled_from([0.2, 0.3, 0.6]))
def test_the_expected_condition_is_that_of_the_log(seed, rows, alpha):
    """At betas of the grid, with all contexts seen: counting rows together changes no sum."""
    rng = np.random.default_rng(seed)
    log = log_of(rng, rows, loss=None if seed % 2 else rng.random(rows) * 0.4)
    share = np.full(rows, 1 / rows)
    model = ContextClipModel.from_rows(RepresentativeLog.from_tables(log, 1.0, share), None)
    found = tether.calibrate(log, alpha=alpha)
    problem, (constraint,) = found._stored_problem, found.constraints
    curves = model.curves
    of, largest = model.population, curves.largest_among(100 * rows)
    for k in range(0, len(curves.log_beta), 7):
        harm, weight = of.share @ curves.harm[:, k], of.share @ curves.weight[:, k]
        risk = (rows * harm + largest[k]) / (rows * weight + largest[k])
        assert risk == pytest.approx(problem.risk(constraint, curves.log_beta[k]), rel=1e-9)


@pytest.mark.parametrize("never", [False, True])
def test_with_the_rows_as_the_truth_beta_and_stability_are_near_those_of_the_log(never):
    for seed in range(4):
        log = log_of(np.random.default_rng(seed), 600, never=never)
        made = tether.plan(log, alpha=0.12, rows=600)
        found = tether.calibrate(log, alpha=0.12)
        ((_, beta),) = made.betas
        if math.isinf(found.beta):
            assert math.isinf(beta)
        else:
            assert beta == pytest.approx(found.beta, rel=0.15)
        ((_, stated),) = made.promises
        assert stated == pytest.approx(found.promise, abs=0.004)


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        lambda: contexts("", promise=0.08, family="clip"),
        lambda: uneven_contexts("", 0.5, 0.7, "apart", promise=0.08, family="clip"),
    ],
)
@pytest.mark.parametrize("probability", [0.9])
def test_logs_of_the_planned_size_pass_as_often_as_planned(world, probability):
    assert_logs_pass_as_planned(world(), probability, scaled(16))


def test_contexts_that_differ_are_not_planned_as_if_they_were_alike():
    """Figures alone expect a beta of 20 here; calibrations of 1,000 rows find about 0.5."""
    truth = uneven_contexts("", 1.5, 1.0, "apart", alpha=0.08, family="clip")
    log = truth.log(slice(0, 8000))
    made = tether.plan(log, alpha=0.08, rows=1000)
    assert made.not_modelled is None
    assert 0.2 < made.betas[0][1] < 1.5
    figures = tether.plan(log, alpha=0.08, rows=1000, safe_risk=made.safe_risk)
    assert "spread alike in all" in figures.not_modelled
    assert figures.betas[0][1] > 5


def test_betas_to_certify_are_those_of_the_tables():
    """As if contexts were alike, a beta of 1.6 would be expected."""
    truth = uneven_contexts("", 1.5, 1.0, "apart", alpha=0.08, family="clip", confidence=0.9)
    log, rng = truth.log(slice(0, 8000)), np.random.default_rng(0)
    ((_, planned),) = tether.plan(log, rows=500, **truth.asked).betas
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sorted(truth.calibrate(500, rng).beta for _ in range(9))
    assert found[2] <= planned <= found[5] <= 1.5
    assert planned < 0.8
