"""`AlphaGrid.plot`: what each alpha buys."""

import numpy as np
from matplotlib.figure import Figure

import tether
from tests.control.finite_worlds import FiniteWorld

ALPHAS = [0.9, 0.5, 0.55]


def test_rewards_are_drawn_in_the_order_of_alpha_with_the_safe_reward():
    grid = tether.gain_over_alphas(FiniteWorld.draw(3).log(), alphas=ALPHAS)
    axes = grid.plot().axes[0]
    line, safe = axes.lines
    assert line.get_xdata().tolist() == sorted(ALPHAS)
    np.testing.assert_array_equal(line.get_ydata(), grid.to_frame()["reward"][np.argsort(ALPHAS)])
    assert set(safe.get_ydata()) == {grid.entries[0].gain.reward.safe.mean}
    assert axes.get_xlabel() == "alpha"
    assert axes.get_ylabel() == "expected reward"


def test_without_rewards_the_share_that_changes_is_drawn_into_given_axes():
    log = FiniteWorld.draw(3).log()
    plain = tether.Log(log.loss, log.log_safe, log.log_optimized)
    grid = tether.gain_over_alphas(plain, alphas=[{"loss": alpha} for alpha in ALPHAS])
    figure = Figure()
    axes = figure.subplots()
    assert grid.plot(ax=axes) is figure
    assert axes.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert axes.get_ylabel() == "share of decisions that change"
