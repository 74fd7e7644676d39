"""Charts put things where they belong: checked against the values, not against pictures."""

import dataclasses
import itertools
import json
import re

import numpy as np
import pytest

import tether
from tests.report import histories
from tests.report.conftest import made, rendered
from tests.report.reading import read
from tether.report import outcome_charts, round_charts
from tether.report.chart_marks import apart, beta_ticks


def test_points_lie_where_their_values_are():
    """Places are one straight function of the values, as the ticks of the axis have it."""
    history = made("ten_rounds")
    values = {
        "chart-risk": [each.loss.mean for each in history.rounds],
        "chart-reward": [each.reward.mean for each in history.rounds],
        "chart-acceptance": [e.calibration.acceptance for e in history.rounds[1:]],
        "chart-effective": [e.calibration.effective_sample_size for e in history.rounds[1:]],
    }
    for name, expected in values.items():
        (figure,) = read(rendered("ten_rounds")).all("figure", id=name)
        for svg in figure.all("svg"):
            ticks = [
                (float(each.text.replace(",", "").replace("−", "-").replace(" %", "e-2")), y)
                for each in svg.all("text")
                if each.attributes.get("text-anchor") == "end"
                for y in [float(each.attributes["y"])]
            ]
            slope, start = np.polyfit(*zip(*ticks, strict=True), 1)
            points = np.array(json.loads(svg.attributes["data-points"]))
            # A tick's word stands half its height below the tick itself.
            away = points[:, 1] - (start + slope * np.array(expected))
            assert away == pytest.approx(np.full(len(points), away.mean()), abs=0.3)
            assert -6 < away.mean() < -3
            assert np.diff(points[:, 0]) == pytest.approx(np.diff(points[:, 0]).mean(), abs=0.2)


def test_the_color_changes_at_alpha():
    (figure,) = read(rendered("ten_rounds")).all("figure", id="chart-curve")
    (tint,) = figure.all("lineargradient")
    lines = [
        each.attributes["d"]
        for each in figure.all("path")
        if each.attributes.get("class") == "stroke-ink"
    ]
    (height,) = {float(y) for line in lines for y in re.findall(r" ([\d.]+)", line)}
    assert float(tint.attributes["y2"]) == pytest.approx(height, abs=0.11)
    stops = [(each.attributes["class"], each.attributes["offset"]) for each in tint.all("stop")]
    assert stops == [("stop-over", "0"), ("stop-over", "1"), ("stop-accent", "1")]


def test_shapes_say_what_colors_say():
    """Clearly above alpha is a full triangle; merely above, an open one; safe only, a ring."""
    (figure,) = read(rendered("ten_rounds")).all("figure", id="chart-risk")
    svg = next(figure.all("svg"))
    used = [each.attributes["class"] for each in svg.all("use")]
    assert set(used) == {
        "fill-paper stroke-accent",
        "fill-accent stroke-accent",
        "fill-paper stroke-over",
        "fill-over stroke-over",
    }
    losses = [each.loss for each in made("ten_rounds").rounds]
    assert used.count("fill-over stroke-over") == sum(each.lower > 0.1 for each in losses) == 1
    merely = sum(each.lower <= 0.1 < each.mean for each in losses)
    assert used.count("fill-paper stroke-over") == merely
    links = {each.attributes["class"]: each.attributes["href"] for each in svg.all("use")}
    assert links["fill-paper stroke-over"] != links["fill-accent stroke-accent"]


def test_a_thinned_line_stays_close():
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(400))
    y = np.cumsum(rng.normal(size=400)) / 40 + 3 * x**2
    kept_x, kept_y = round_charts.thinned(x, y, (300.0, 200.0), 0.4)
    assert len(kept_x) < len(x)
    assert {*zip(kept_x, kept_y, strict=True)} <= {*zip(x, y, strict=True)}
    kept = np.searchsorted(x, kept_x)
    where = np.column_stack([300 * x, 200 * y])
    for left, right in itertools.pairwise(kept):
        along = (where[right] - where[left]) / np.hypot(*(where[right] - where[left]))
        away = where[left : right + 1] - where[left]
        assert np.hypot(*(away - np.outer(away @ along, along)).T).max() <= 0.4 + 1e-9
    flat = round_charts.thinned(np.arange(50.0), np.zeros(50), (1.0, 1.0))
    assert [len(part) for part in flat] == [2, 2]
    assert [len(part) for part in round_charts.thinned(np.empty(0), np.empty(0), (1.0, 1.0))] == [
        0,
        0,
    ]


def test_spread_is_the_share_of_the_weight():
    rng = np.random.default_rng(1)
    weights = np.sort(rng.exponential(size=20_000))
    quantiles = np.quantile(weights / weights.mean(), np.linspace(0, 1, 101))
    direct = np.append(0, np.cumsum(weights) / weights.sum())[np.arange(101) * 200]
    assert round_charts.spread(tuple(quantiles)) == pytest.approx(direct, abs=0.03)
    assert round_charts.spread((1.0,) * 101) == pytest.approx(np.linspace(0, 1, 101))
    assert round_charts.spread((0.0,) * 101) is None


@pytest.mark.parametrize("reach", [(-1.0, 1.0), (-40.0, 3.0), (-700.0, 900.0), (0.0, 0.1)])
def test_ticks_of_beta(reach):
    ticks = beta_ticks(*reach)
    assert len(ticks) <= 7
    assert reach[1] - reach[0] < 1 or len(ticks) >= 2
    assert len(set(ticks.values())) == len(ticks)
    assert all(reach[0] - 0.21 <= tick <= reach[1] + 0.21 for tick in ticks)


def test_words_are_moved_apart():
    assert apart(1.0, 1.1, 0.5) == pytest.approx((0.8, 1.3))
    assert apart(1.1, 1.0, 0.5) == pytest.approx((1.3, 0.8))
    assert apart(0.0, 2.0, 0.5) == (0.0, 2.0)


def test_extreme_policies_are_drawn():
    """Log ratios of hundreds, no weight on any row, and limits that are infinite."""
    rng = np.random.default_rng(2)
    ratio = 300 * rng.normal(size=200)
    log = tether.Log(rng.random(200) < 0.02, np.full(200, -800.0), -800 + np.minimum(ratio, 0))
    wide = tether.calibrate(log, alpha=0.3)
    far = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50), log_mix=np.full(50, 900.0))
    draws = tether.Proposals([0.0], [0.0], log_mix=[-900.0])
    weightless = tether.calibrate(far, draws, alpha=0.1)
    endless = tether.rounds.history.Estimate(3, 0.5, -np.inf, np.inf)
    rounds = [
        histories.tethered_round(1, rng, calibration=wide, reward=endless),
        histories.tethered_round(2, rng, calibration=weightless),
    ]
    page = read(tether.report.render(histories.history(rounds)))
    assert "nan" not in page.text.lower().split()
    for each in page.all("path"):
        assert "nan" not in each.attributes["d"].lower()
    (figure,) = page.all("figure", id="chart-weights")
    assert "no row has any weight" in figure.text


def test_a_chart_with_nothing_to_show_is_left_out():
    rng = np.random.default_rng(3)
    unknown = histories.calibrated(tether.Gaussian(1.0, 0.8), 400, 0.1, rng).to_dict()
    silent = tether.Calibration.from_dict(unknown | {"acceptance": float("nan")})
    rounds = [histories.tethered_round(1, rng, calibration=silent, reward=None, loss=None)]
    many = [histories.Alarm(n, n, "risk", "so it is", histories.day(n), "now") for n in range(9)]
    page = read(tether.report.render(histories.history(rounds, many)))
    charts = {each.attributes["id"] for each in page.all("figure")}
    assert charts == {f"chart-{name}" for name in ("beta", "effective", "curve", "near", "weights")}
    (section,) = page.all("section", id="risk")
    assert "No losses have arrived yet." in section.text


def test_many_alarms_are_lines_without_words():
    history = made("one_safe_round")
    for count, words in ((3, True), (9, False)):
        alarms = [histories.Alarm(n, n, "risk", "it is", "then", "now") for n in range(count)]
        chart = outcome_charts.realized_risk(dataclasses.replace(history, alarms=tuple(alarms)))
        drawn = read(chart.draw("x-only", 500.0, 300.0, "x"))
        assert ("alarm" in [each.text for each in drawn.all("text")]) == words
