import json
import sys

import matplotlib
import numpy as np
import pytest

from tests.report.example_histories import example, rendered
from tests.report.html_tree import parse
from tether.report import render
from tether.report.chart_canvas import matplotlib_defaults


def test_points_are_positioned_by_their_values():
    """Positions are one linear function of the values, the same as that of the ticks."""
    rounds = example("ten_rounds").rounds
    calibrations = [record.calibration for record in rounds[1:]]
    values_by_chart = {
        "chart-risk": [record.losses.get("loss").mean for record in rounds],
        "chart-reward": [record.reward.mean for record in rounds],
        "chart-acceptance": [calibration.measured.acceptance for calibration in calibrations],
        "chart-effective": [
            calibration.measured.effective_sample_size for calibration in calibrations
        ],
    }
    for name, values in values_by_chart.items():
        (figure,) = parse(rendered("ten_rounds")).find_all("figure", id=name)
        for svg in figure.find_all("svg"):
            ticks = [
                (
                    float(node.text.replace(",", "").replace("−", "-").replace(" %", "e-2")),
                    float(node.attributes["y"]),
                )
                for node in svg.find_all("text")
                if node.attributes.get("text-anchor") == "end"
            ]
            slope, start = np.polyfit(*zip(*ticks, strict=True), 1)
            points = np.array(json.loads(svg.attributes["data-points"]))
            # The baseline of a label is half its height below the tick.
            offset = points[:, 1] - (start + slope * np.array(values))
            assert offset == pytest.approx(np.full(len(points), offset.mean()), abs=0.3)
            assert -6 < offset.mean() < -3
            assert np.diff(points[:, 0]) == pytest.approx(np.diff(points[:, 0]).mean(), abs=0.2)


def test_the_users_matplotlib_style_neither_shows_nor_changes():
    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 30, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert render(example("one_safe_round")) == rendered("one_safe_round")
        assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'tether\[plot\]'"):
        with matplotlib_defaults():
            pass
