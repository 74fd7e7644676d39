"""`Plan.plot`: the rows that other alphas need."""

import numpy as np
from matplotlib.figure import Figure

import tether


def test_both_numbers_of_rows_are_drawn_and_the_named_alpha_is_marked():
    made = tether.plan(alpha=0.1, safe_risk=0.05)
    (axes,) = made.plot().axes
    table = made.curve()
    likely, marked, needed, marked_too, safe = axes.lines
    np.testing.assert_array_equal(likely.get_ydata(), table["rows_likely"])
    np.testing.assert_array_equal(needed.get_ydata(), table["rows_needed"])
    assert (marked.get_xdata()[0], marked.get_ydata()[0]) == (0.1, made.rows_likely)
    assert (marked_too.get_xdata()[0], marked_too.get_ydata()[0]) == (0.1, made.rows_needed)
    assert safe.get_xdata()[0] == 0.05
    assert axes.get_title(loc="left") == "alpha 0.1: 69 rows are likely enough"


def test_a_plan_that_is_impossible_says_so():
    (axes,) = tether.plan(alpha=0.1, safe_risk=0.2).plot().axes
    assert axes.get_title(loc="left") == "alpha 0.1: no number of rows is enough"


def test_into_axes_of_the_user():
    figure = Figure()
    axes = figure.add_subplot()
    assert tether.plan(alpha=0.1, safe_risk=0.05).plot(axes) is figure
    assert axes.lines
