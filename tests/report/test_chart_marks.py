import pytest

from tests.report.example_histories import example, rendered
from tests.report.html_tree import parse
from tether.report.chart_marks import columns, move_apart


def test_shapes_say_what_colors_say():
    """Clearly above alpha: filled triangle; above alpha: open one; safe policy only: ring."""
    (figure,) = parse(rendered("ten_rounds")).find_all("figure", id="chart-risk")
    svg = next(figure.find_all("svg"))
    classes = [node.attributes["class"] for node in svg.find_all("use")]
    assert set(classes) == {
        "fill-background stroke-accent",
        "fill-accent stroke-accent",
        "fill-background stroke-above-alpha",
        "fill-above-alpha stroke-above-alpha",
    }
    losses = [record.losses.get("loss") for record in example("ten_rounds").rounds]
    clearly_above = sum(loss.lower > 0.1 for loss in losses)
    assert classes.count("fill-above-alpha stroke-above-alpha") == clearly_above == 1
    barely_above = sum(loss.lower <= 0.1 < loss.mean for loss in losses)
    assert classes.count("fill-background stroke-above-alpha") == barely_above
    markers = {node.attributes["class"]: node.attributes["href"] for node in svg.find_all("use")}
    assert markers["fill-background stroke-above-alpha"] != markers["fill-accent stroke-accent"]


def test_labels_are_moved_apart():
    assert move_apart(1.0, 1.1, 0.5) == pytest.approx((0.8, 1.3))
    assert move_apart(1.1, 1.0, 0.5) == pytest.approx((1.3, 0.8))
    assert move_apart(0.0, 2.0, 0.5) == (0.0, 2.0)


def test_columns_are_there_without_rows_too():
    assert columns([(1, 2), (3, 4)]) == ((1, 3), (2, 4))
    assert columns([], 3) == ((), (), ())
