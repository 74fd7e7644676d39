import re

import numpy as np
import pytest

import tether
from tests.report import example_histories
from tests.report.example_histories import rendered
from tests.report.html_tree import parse
from tether.report.single_round_charts import cumulative_weight


def test_the_color_changes_at_alpha():
    (figure,) = parse(rendered("ten_rounds")).find_all("figure", id="chart-curve")
    (gradient,) = figure.find_all("lineargradient")
    alpha_lines = [
        node.attributes["d"]
        for node in figure.find_all("path")
        if node.attributes.get("class") == "stroke-text"
    ]
    (height,) = {float(y) for line in alpha_lines for y in re.findall(r" ([\d.]+)", line)}
    assert float(gradient.attributes["y2"]) == pytest.approx(height, abs=0.11)
    stops = [
        (node.attributes["class"], node.attributes["offset"]) for node in gradient.find_all("stop")
    ]
    assert stops == [("stop-above-alpha", "0"), ("stop-above-alpha", "1"), ("stop-accent", "1")]


def test_cumulative_weight_is_the_share_of_the_weight():
    rng = np.random.default_rng(1)
    weights = np.sort(rng.exponential(size=20_000))
    quantiles = np.quantile(weights / weights.mean(), np.linspace(0, 1, 101))
    expected = np.append(0, np.cumsum(weights) / weights.sum())[np.arange(101) * 200]
    assert cumulative_weight(tuple(quantiles)) == pytest.approx(expected, abs=0.03)
    assert cumulative_weight((1.0,) * 101) == pytest.approx(np.linspace(0, 1, 101))
    assert cumulative_weight((0.0,) * 101) is None


def test_extreme_calibrations_are_drawn():
    """Log ratios of hundreds, no weight on any row, and infinite limits."""
    rng = np.random.default_rng(2)
    log_ratio = 300 * rng.normal(size=200)
    log = tether.Log(rng.random(200) < 0.02, np.full(200, -800.0), -800 + np.minimum(log_ratio, 0))
    wide = tether.calibrate(log, alpha=0.3)
    log = tether.Log(np.zeros(50), np.zeros(50), np.full(50, -np.inf))
    weightless = tether.calibrate(log, tether.Proposals([0.0], [0.0]), alpha=0.1, blend=0.0)
    unlimited = example_histories.Estimate(3, 0.5, -np.inf, np.inf)
    rounds = [
        example_histories.tethered_round(1, rng, calibration=wide, reward=unlimited),
        example_histories.tethered_round(2, rng, calibration=weightless),
    ]
    page = parse(tether.report.render(example_histories.make_history(rounds)))
    assert "nan" not in page.text.lower().split()
    for node in page.find_all("path"):
        assert "nan" not in node.attributes["d"].lower()
    (figure,) = page.find_all("figure", id="chart-weights")
    assert "no row has any weight" in figure.text
