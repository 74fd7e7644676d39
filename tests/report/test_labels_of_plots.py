"""No label of a plot covers another one or leaves the figure, whatever the result."""

import pytest
from matplotlib.figure import Figure

from tests.report import example_histories, figure_texts
from tests.report.releases import example_releases


def require_clear(figure):
    assert figure_texts.overlaps(figure) == []
    assert figure_texts.cut_off(figure) == []


def test_two_texts_at_the_same_place_are_found():
    figure = Figure()
    axes = figure.add_subplot()
    axes.set_title("the title", loc="left")
    axes.text(0.0, 1.01, "a label", transform=axes.transAxes)
    axes.text(0.9, 0.5, "a label that is far too long", transform=axes.transAxes)
    assert figure_texts.overlaps(figure) == [("a label", "the title")]
    assert figure_texts.cut_off(figure) == ["a label that is far too long"]


@pytest.mark.parametrize("name", sorted(example_histories.EXAMPLES))
def test_of_runs_and_rounds(name):
    history = example_histories.example(name)
    require_clear(history.plot())
    for record in history.rounds[-2:]:
        require_clear(record.plot())


@pytest.mark.parametrize("name", sorted(example_releases.EXAMPLES))
def test_of_releases(name):
    require_clear(example_releases.example(name).plot())
