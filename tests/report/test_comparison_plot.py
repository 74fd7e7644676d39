"""The picture of a comparison."""

import itertools

import numpy as np

import tether
from tests.report.test_comparison import CLAIMS, METHODS, _of_two_families, calibrations


def test_selections_are_drawn_along_their_thresholds():
    found = [method(CLAIMS, alpha=0.2) for method in METHODS]
    above, below = tether.compare(found).plot().axes
    labels = [text.get_text() for text in above.get_legend().get_texts()]
    assert labels == ["gCRC", "CRC", "monotonized CRC", "LTT", "alpha = 0.2"]
    marked = {line.get_xdata()[0] for line in below.lines if line.get_marker() == "o"}
    assert marked == {each.threshold for each in found}


def test_promises_stand_beside_their_alphas_and_betas():
    found = calibrations()
    left, right = tether.compare(found).plot().axes
    assert [text.get_text() for text in left.get_yticklabels()] == [
        "alpha 0.05",
        "alpha 0.1",
        "alpha 0.2",
    ]
    alphas, *promises = left.lines
    assert alphas.get_xdata().tolist() == [0.05, 0.1, 0.2]
    drawn = np.concatenate([line.get_xdata() for line in promises])
    assert sorted(drawn) == sorted(each.promise for each in found)
    assert right.get_xlabel() == "beta"
    assert right.lines[0].get_xdata()[1] == found[1].log_beta


def test_rewards_are_drawn_where_all_have_them():
    found = calibrations(alphas=(0.1, 0.2), rewards=True)
    right = tether.compare(found).plot().axes[1]
    assert right.get_xlabel() == "expected reward"
    means = [each.saved_gain.reward.tethered.mean for each in found]
    assert right.lines[0].get_xdata().tolist() == means


def test_dots_are_inside_the_axes_and_tick_labels_do_not_touch():
    for found in (list(_of_two_families().values()), calibrations()):
        figure = tether.compare(found).plot()
        figure.canvas.draw()
        for axes in figure.axes:
            for line in axes.lines:
                box = axes.get_window_extent()
                across = axes.transData.transform(np.column_stack(line.get_data()))[:, 0]
                assert across.max() <= box.x1 - 4, "half a dot is 4 pixels or more"
            extents = [
                text.get_window_extent()
                for text in axes.get_xticklabels()
                if text.get_text() and box.x0 - 1 <= text.get_window_extent().x1 <= box.x1 + 30
            ]
            for first, second in itertools.pairwise(sorted(extents, key=lambda box: box.x0)):
                assert first.x1 + 4 < second.x0
