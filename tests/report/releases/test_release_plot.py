"""`ReleaseHistory.plot`: the share and the losses of both systems over the steps."""

import numpy as np
from matplotlib.figure import Figure

from tests.report.releases.example_releases import example


def test_shares_and_means_of_both_systems_are_drawn():
    history = example("ramp")
    above, below = history.plot().axes
    shares = [step.share for step in history.steps]
    np.testing.assert_array_equal(above.lines[0].get_ydata(), shares)
    old, new, alpha = below.lines
    for line, system in ((old, "old"), (new, "new")):
        means = [getattr(step, system).losses.get("complaint") for step in history.steps]
        drawn = [each.mean for each in means if each is not None]
        np.testing.assert_array_equal(line.get_ydata(), drawn)
    assert alpha.get_ydata()[0] == 0.02
    assert above.get_title(loc="left").startswith("share of the new system now: ")


def test_every_guardrail_has_a_panel():
    history = example("two_guardrails")
    _, *panels = history.plot().axes
    assert [panel.get_ylabel() for panel in panels] == ["mean complaint", "mean refund"]
    labels = [text.get_text() for text in panels[1].get_legend().get_texts()]
    assert labels == ["old system", "new system", "promise = 0.2"]


def test_alarms_are_marked():
    history = example("active_alarm")
    above = history.plot().axes[0]
    assert above.lines[1].get_xdata()[0] == history.alarms[0].round
    assert "dotted where an alarm was raised" in above.get_title(loc="left")


def test_into_axes_of_the_user():
    figure = Figure()
    axes = figure.add_subplot()
    assert example("started").plot(axes) is figure
    assert len(figure.axes) == 1
