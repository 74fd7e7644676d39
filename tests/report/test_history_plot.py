"""`History.plot`: beta or the share, and the losses, over the rounds."""

import dataclasses
import math

import numpy as np
from matplotlib.figure import Figure

from tests.report.example_histories import example, two_losses
from tether.rounds.run_settings import RAMP_FAMILY


def test_betas_and_mean_losses_are_drawn():
    history = example("ten_rounds")
    above, below = history.plot().axes
    heights = above.lines[0].get_ydata()
    for record, height in zip(history.rounds, heights, strict=True):
        if record.beta > 0:
            assert height == record.calibration.log_beta
    assert heights[0] == min(heights)  # 0 is below every other beta
    means = [record.losses["loss"].mean for record in history.rounds]
    np.testing.assert_array_equal(below.lines[0].get_ydata(), means)
    labels = [text.get_text() for text in below.get_legend().get_texts()]
    assert labels == ["mean so far", "alpha = 0.1"]
    assert above.get_title(loc="left") == "10 rounds, dotted where an alarm was raised"


def test_a_ramp_has_shares():
    history = dataclasses.replace(example("one_safe_round"), family=RAMP_FAMILY)
    above, _ = history.plot().axes
    assert above.get_ylabel() == "share of the new policy"
    assert above.lines[0].get_ydata().tolist() == [0.0]


def test_a_run_without_rounds():
    above, _ = example("empty").plot().axes
    assert above.get_title(loc="left") == "no round has begun"


def test_into_axes_of_the_user():
    figure = Figure()
    axes = figure.add_subplot()
    assert two_losses().plot(axes) is figure
    assert len(figure.axes) == 1
    assert not math.isnan(axes.lines[0].get_ydata()[0])
