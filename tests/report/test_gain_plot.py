"""`Gain.plot`: one point and one interval per policy."""

import pytest
from matplotlib.figure import Figure

import tether
from tests.control.finite_worlds import FiniteWorld


def make_gain(seed=3):
    return tether.gain(tether.calibrate(FiniteWorld.draw(seed).log(), alpha=0.55))


def test_every_known_mean_is_a_point_with_its_interval():
    found = make_gain()
    figure = found.plot()
    reward, loss = figure.axes
    for axes, means in ((reward, found.reward), (loss, found.losses["loss"])):
        points = {tuple(line.get_ydata()) for line in axes.lines}
        for policy in ("safe", "tethered", "optimized"):
            estimate = getattr(means, policy)
            if estimate.known:
                assert {(estimate.mean,), (estimate.lower, estimate.upper)} <= points
    assert reward.get_ylabel() == "expected reward"
    assert "of decisions change" in reward.get_title(loc="left")


def test_an_unknown_mean_has_a_word_instead_of_a_point():
    log = tether.Log([0.0] * 100, [-1.0] * 100, [-2.0] * 99 + [3.0], reward=range(100))
    found = tether.gain(tether.calibrate(log, alpha=0.1, test_weight=20.0))
    assert found.reward.tethered.known
    assert not found.reward.optimized.known
    axes = found.plot().axes[0]
    assert [text.get_text() for text in axes.texts] == ["unknown"]


def test_it_can_be_drawn_into_given_axes():
    figure = Figure()
    axes = figure.subplots()
    assert make_gain().plot(ax=axes) is figure
    assert axes.get_ylabel() == "expected reward"
    subfigure = figure.subfigures()
    assert make_gain().plot(ax=subfigure.subplots()) is figure


def test_rewards_that_are_all_equal_have_a_point_without_an_interval():
    log = tether.Log([0.0] * 100, [-1.0] * 100, [-1.0] * 100, reward=[2] * 100)
    axes = tether.gain(tether.calibrate(log, alpha=0.2)).plot().axes[0]
    assert [tuple(line.get_ydata()) for line in axes.lines] == [(pytest.approx(2.0),)] * 3
