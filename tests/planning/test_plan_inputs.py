"""A plan measures its inputs from a log."""

import numpy as np
import pytest

import tether
from tether.planning.plan_inputs import measure_inputs

RNG = np.random.default_rng(0)
SAFE, OPTIMIZED = tether.Gaussian(0.0), tether.Gaussian(1.0)


def make(actions, **more):
    return tether.make_log(SAFE, OPTIMIZED, None, actions, actions > 1.5, **more)


def test_the_inputs_are_those_of_the_world():
    found = measure_inputs(make(SAFE.sample(200_000, RNG)))
    assert found.safe_risk == pytest.approx(0.0668, abs=0.003)  # P(N(0, 1) > 1.5)
    assert found.optimized_risk == pytest.approx(0.3085, abs=0.02)  # P(N(1, 1) > 1.5)
    assert found.log_ratio_spread == pytest.approx(1.0, abs=0.02)


def test_rows_of_a_mixture_are_weighted():
    both = tether.Mixture([SAFE, OPTIMIZED], [0.5, 0.5])
    found = measure_inputs(make(both.sample(200_000, RNG), logged_by=both, safe_share=0.5))
    assert found.safe_risk == pytest.approx(0.0668, abs=0.003)
    assert found.optimized_risk == pytest.approx(0.3085, abs=0.005)
    assert found.log_ratio_spread == pytest.approx(1.0, abs=0.02)


def test_actions_that_the_optimized_policy_never_takes_and_equal_policies():
    log = tether.Log([0, 1, 0, 1], [-1.0] * 4, [-1.0, -np.inf, -2.0, -np.inf])
    found = measure_inputs(log)
    assert found.safe_risk == 0.5
    assert found.optimized_risk == 0
    assert found.log_ratio_spread == pytest.approx(0.5)
    same = measure_inputs(tether.Log([0, 1], [-1.0] * 2, [-1.0] * 2))
    assert same.log_ratio_spread > 0
    never = tether.Log([0, 1], [-1.0] * 2, [-np.inf] * 2)
    assert measure_inputs(never).optimized_risk == 0.5


def test_a_plan_of_a_log_is_of_its_rows_unless_a_figure_is_stated():
    log = make(SAFE.sample(300, RNG))
    inputs = measure_inputs(log)
    made = tether.plan(log, promise=0.12)
    assert (made.safe_risk, made.optimized_risk, made.log_ratio_spread) == inputs
    assert 300 in [rows for rows, _ in made.betas]
    given = tether.plan(promise=0.12, **inputs._asdict())
    stated = tether.plan(log, promise=0.12, safe_risk=inputs.safe_risk)
    assert (stated.rows_needed, stated.rows_likely) == (given.rows_needed, given.rows_likely)
    assert set(given.betas) <= set(stated.betas)
    other = tether.plan(log, alpha=0.12, optimized_risk=0.1, log_ratio_spread=0.5, safe_risk=0.02)
    stated = (other.safe_risk, other.optimized_risk, other.log_ratio_spread)
    assert stated == (0.02, 0.1, 0.5)


def test_a_log_without_losses_is_planned_and_the_plan_says_so():
    log = tether.Log([0.0] * 60, [-1.0] * 60, RNG.normal(-1, 0.3, size=60))
    made = tether.plan(log, promise=0.1)
    assert made.safe_risk == 0
    assert made.rows_needed == made.rows_likely < 60
    text = " ".join(str(made).split())
    assert "no row of this log has a loss" in text
    assert "a safe risk of up to 0.05 would not be unusual" in text
    assert "no row of this log" not in str(tether.plan(promise=0.1, safe_risk=0.0))


def test_what_is_no_log_is_refused():
    with pytest.raises(TypeError, match="safe_risk is required"):
        tether.plan(alpha=0.1)
    with pytest.raises(TypeError, match=r"log must be a tether\.Log in memory, got float"):
        tether.plan(0.05, alpha=0.1)
    two = tether.Log({"harm": [0, 1], "delay": [0, 0]}, [-1.0] * 2, [-1.0] * 2)
    with pytest.raises(ValueError, match=r"for one loss, and the log has .*harm"):
        tether.plan(two, alpha=0.1)
