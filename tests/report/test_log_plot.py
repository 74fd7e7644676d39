"""`Log.plot`: how far the policies are apart, and the mean loss along the ratios."""

import numpy as np
from matplotlib.figure import Figure

import tether
from tether.report.log_plot import by_ratio


def make_log():
    rng = np.random.default_rng(0)
    optimized = rng.normal(-3, 0.5, 200)
    optimized[:7] = -np.inf
    return tether.Log(rng.random(200), rng.normal(-3, 0.5, 200), optimized)


def test_means_are_drawn_in_the_middle_of_their_group():
    log = make_log()
    above, below = log.plot().axes
    table = by_ratio(log)
    taken = np.isfinite(table["lowest_log_ratio"])
    middle = (table["lowest_log_ratio"] + table["highest_log_ratio"])[taken] / 2
    np.testing.assert_allclose(below.lines[0].get_xdata(), middle)
    np.testing.assert_allclose(below.lines[0].get_ydata(), table["loss"][taken])
    heights = sum(bar.get_height() for bar in above.patches)
    assert heights == np.isfinite(log.log_ratio).sum()
    title = above.get_title(loc="left")
    assert title.startswith(f"200 rows, worth {log.overlap:,.0f} for the optimized policy")
    assert "of them it never takes" in title


def test_several_losses_are_relative_to_their_means():
    rng = np.random.default_rng(0)
    losses = {"harm": rng.random(90), "delay": 50 * rng.random(90)}
    log = tether.Log(losses, np.full(90, -1.0), rng.normal(size=90) - 4)
    _, below = log.plot().axes
    assert below.get_ylabel() == "mean loss / overall mean"
    assert len(below.get_legend().get_texts()) == 2
    assert max(line.get_ydata().max() for line in below.lines) < 2


def test_a_policy_that_takes_none_of_the_actions():
    log = tether.Log([0, 1], [-1, -1], [-np.inf, -np.inf])
    above, below = log.plot().axes
    assert not above.patches
    assert "worth 0 for" in above.get_title(loc="left")
    assert not len(below.lines[0].get_xdata())


def test_into_axes_of_the_user():
    figure = Figure()
    axes = figure.add_subplot()
    assert make_log().plot(axes) is figure
    assert axes.lines
