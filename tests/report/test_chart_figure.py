import json

from tests.report.html_tree import parse
from tether.report.chart_figure import DRAWING_SIZES, Chart
from tether.report.html_elements import Markup, element


def draw(name, width, height, label):
    return element("svg", id=name, width=width, height=height, aria_label=label)


def test_a_figure_has_drawings_tips_and_a_table():
    chart = Chart(
        name="beta",
        title="Beta",
        caption="How far",
        alternative="Beta, 0.5",
        draw=draw,
        table=Markup("<table></table>"),
        tips=["Round 1: 0.5"],
        rounds=[1],
    )
    (figure,) = parse(chart.figure()).find_all("figure", id="chart-beta")
    drawings = list(figure.find_all("svg"))
    assert [svg.attributes["id"] for svg in drawings] == ["beta-wide", "beta-narrow"]
    sizes = [(float(svg.attributes["width"]), float(svg.attributes["height"])) for svg in drawings]
    assert sizes == list(DRAWING_SIZES["half"].values())
    assert {svg.attributes["aria-label"] for svg in drawings} == {"Beta, 0.5"}
    (plot,) = figure.find_all("div", **{"class": "plot"})
    assert json.loads(plot.attributes["data-tips"]) == ["Round 1: 0.5"]
    assert json.loads(plot.attributes["data-rounds"]) == [1]
    (details,) = figure.find_all("details")
    assert list(details.find_all("table"))


def test_a_chart_without_tips_cannot_be_pointed_at():
    figure = parse(Chart("x", "X", "", "", draw, Markup("")).figure())
    assert "data-tips" not in next(figure.find_all("div")).attributes
