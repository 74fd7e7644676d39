"""The rows that a plan states, against calibrations of logs with so many rows."""

import numpy as np
import pytest
from benchmarks.plan_worlds import gaussian, graded, never_takes, propensities
from scipy.stats import binom

import tether
from tests.planning.plan_truths import assert_logs_pass_as_planned
from tests.scale import scaled
from tether.planning.population import Population
from tether.planning.rows_needed import mean_loss_quantile

WORLDS = [
    lambda: gaussian("", 1.0, 1.5, promise=0.2, family="clip"),
    lambda: gaussian("", 1.0, 1.5, promise=0.1, family="mix"),
    lambda: graded("", 0.1, promise=0.13, family="clip"),
    lambda: graded("", 0.1, promise=0.13, family="mix"),
    lambda: never_takes("", promise=0.1, family="clip"),
    lambda: propensities("", promise=0.05, family="mix"),
    lambda: graded("", 0.1, alpha=0.12, family="clip"),
]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("probability", [0.5, 0.9])
def test_logs_of_the_planned_size_pass_as_often_as_planned(world, probability):
    assert_logs_pass_as_planned(world(), probability, scaled(30))


def test_the_alpha_inside_a_promise_grows_with_the_rows():
    """A log that the plan said took 8,000 rows; calibrations of logs like it pass with 3,000."""
    made = propensities("", promise=0.04, family="mix").plan()
    assert 2300 < made.rows_likely < 4200
    assert 700 < made.rows_needed < 1500


def test_more_is_needed_for_a_larger_probability_and_for_a_smaller_promise():
    world = {"safe_risk": 0.02, "optimized_risk": 0.1}
    for family in ("clip", "mix"):
        likely = [
            tether.plan(promise=0.04, pass_probability=each, family=family, **world).rows_likely
            for each in (0.3, 0.6, 0.9)
        ]
        assert likely == sorted(set(likely))
        by_promise = [
            tether.plan(promise=each, family=family, **world).rows_likely
            for each in (0.3, 0.1, 0.03, 0.021)
        ]
        assert by_promise == sorted(set(by_promise))


def test_logs_that_pass_only_because_they_have_no_loss_are_not_counted_on():
    """Eight rows without a loss state this promise, and half of all logs have none."""
    made = tether.plan(promise=0.2, safe_risk=0.067, optimized_risk=0.3, pass_probability=0.5)
    assert made.rows_likely > 40
    assert made.rows_likely == pytest.approx(made.rows_needed, rel=0.1)


def test_the_quantile_of_mean_losses_is_between_those_of_whole_numbers():
    truth = Population.from_figures(0.05, 0.05, 1.0)
    for rows in (20, 100, 3000):
        for probability in (0.5, 0.8, 0.99):
            harmful = mean_loss_quantile(truth, rows, probability) * rows
            whole = binom.ppf(probability, rows, 0.05)
            assert whole - 0.51 <= harmful <= whole + 0.51
    assert mean_loss_quantile(truth, 3, 0.8) == 0
    exact = mean_loss_quantile(truth, 50_000, 0.9)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tether.planning.rows_needed.MAX_EXACT_ROWS", 0)
        assert mean_loss_quantile(truth, 50_000, 0.9) == pytest.approx(exact, rel=1e-4)


def test_a_promise_that_is_next_to_the_safe_risk_takes_too_many_rows():
    for promise in (0.05 + 1e-9, 0.05 + 1e-16):
        with pytest.raises(ValueError, match=r"more than 1e\+15 rows .*: promise = 0\.05 is too"):
            tether.plan(promise=promise, safe_risk=0.05)


@pytest.mark.parametrize("bound", [1.0, 20.0])
def test_every_point_of_the_curve_is_a_plan(bound):
    made = tether.plan(alpha=0.1 * bound, safe_risk=0.05 * bound, bound=bound)
    table = made.curve(points=6)
    assert 0.1 * bound in table["alpha"]
    assert (np.diff(table["alpha"]) > 0).all()
    for alpha, needed, likely in zip(*table.values(), strict=True):
        one = tether.plan(alpha=float(alpha), safe_risk=0.05 * bound, bound=bound)
        assert (one.rows_needed, one.rows_likely) == (needed, likely)


def test_of_a_promise_the_curve_is_over_promises():
    made = tether.plan(promise=0.3, safe_risk=0.05)
    table = made.curve(points=3)
    assert list(table) == ["promise", "rows_needed", "rows_likely"]
    at = list(table["promise"]).index(0.3)
    assert table["rows_needed"][at] == made.rows_needed
    assert (np.diff(table["rows_needed"]) <= 0).all()


def test_levels_that_cannot_be_reached_need_infinitely_many():
    table = tether.plan(alpha=0.1, safe_risk=0.2).curve(points=4)
    assert table["alpha"][0] == 0.1
    assert np.isinf(table["rows_needed"][0])
    assert np.isfinite(table["rows_needed"][1:]).all()
    assert tether.plan(alpha=0.1, safe_risk=1.0).curve()["rows_needed"].tolist() == [np.inf]
    close = tether.plan(alpha=0.1, safe_risk=0.1 - 1e-14 + 1e-13)
    assert np.isinf(close.curve(points=3)["rows_likely"]).any()


def test_the_sizes_of_a_plan_are_a_table():
    made = tether.plan(alpha=0.1, safe_risk=0.05)
    table = made.to_frame()
    assert [tuple(row) for row in zip(table["rows"], table["beta"], strict=True)] == list(
        made.betas
    )
    assert str(table) in str(made)
    with pytest.raises(ValueError, match="points must be an integer of at least 2"):
        made.curve(points=1)
