"""The rows that other levels need: the same as a plan for each of them."""

import numpy as np
import pytest

import tether


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
