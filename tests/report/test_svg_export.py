import json

import numpy as np

from tests.report.html_tree import parse
from tether.report.chart_canvas import ACCENT_COLOR, blank_axes
from tether.report.svg_export import figure_to_svg, round_group_id


def export(**options):
    figure, axes = blank_axes(300.0, 200.0)
    axes.plot([0, 1], [0, 1], color=ACCENT_COLOR, gid=round_group_id("mark", 3, selected=True))
    (svg,) = parse(figure_to_svg(figure, name="chart-only", **options)).find_all("svg")
    return svg


def test_colors_become_classes():
    svg = export(label="a line")
    assert "#0000" not in "".join(str(node.attributes) for node in svg.find_all())
    (group,) = svg.find_all("g", **{"class": "mark selected"})
    assert group.attributes["data-round"] == "3"
    assert next(group.find_all("path")).attributes["class"] == "stroke-accent"


def test_the_label_or_a_description_is_the_text_alternative():
    assert export(label="a line").attributes["aria-label"] == "a line"
    assert export(label="").attributes["aria-labelledby"] == "chart-only-description"


def test_points_are_rounded_to_a_tenth_of_a_pixel():
    svg = export(label="a line", points=np.array([[1.23, 4.56]]))
    assert json.loads(svg.attributes["data-points"]) == [[1.2, 4.6]]
    assert svg.attributes["viewbox"] == "0 0 300 200"
