"""What all plots share: labels beside lines, and lines that are cut at a level."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tether.report import plot_frame


@pytest.mark.parametrize(("level", "side"), [(0.1, "bottom"), (0.7, "bottom"), (0.9, "top")])
def test_a_label_near_the_top_is_below_its_line(level, side):
    axes = Figure().add_subplot()
    axes.set_ylim(0, 1)
    plot_frame.draw_level(axes, level, "alpha")
    (label,) = axes.texts
    assert label.get_va() == side
    assert label.xy[1] == level
    assert axes.lines[0].get_ydata()[0] == level


def test_the_axis_ends_above_everything_drawn():
    axes = Figure().add_subplot()
    axes.plot([0, 1], [0.2, 0.5])
    plot_frame.start_at_zero(axes, 0.4)
    assert axes.get_ylim() == (0, pytest.approx(0.54))
    plot_frame.start_at_zero(axes, 2.0, np.inf)
    assert axes.get_ylim() == (0, pytest.approx(2.16))
    empty = Figure().add_subplot()
    plot_frame.start_at_zero(empty)
    low, high = empty.get_ylim()
    assert low == 0
    assert high > 0


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.floats(-5, 5))
def test_a_cut_line_is_the_same_line(heights, level):
    x, y = np.arange(len(heights), dtype=float), np.array(heights)
    cut_x, cut_y = plot_frame.with_crossings(x, y, level)
    assert {*zip(x, y, strict=True)} <= {*zip(cut_x, cut_y, strict=True)}
    gap = cut_y - level
    assert (gap[1:] * gap[:-1] <= 0).sum() >= (gap[1:] * gap[:-1] < 0).sum() == 0
    np.testing.assert_allclose(np.interp(cut_x, x, y), cut_y, atol=1e-9)


def test_names_fit_on_one_line():
    assert plot_frame.one_line("a\nb  c") == "a b c"
    assert plot_frame.one_line("x" * 50, 10) == "x" * 9 + "…"
    assert plot_frame.one_line("$5") == r"\$5"
    assert plot_frame.one_line("red \x1b[31m") == r"red \x1b[31m"


def test_a_name_with_an_underscore_in_front_stays_in_the_legend():
    axes = plot_frame.new_figure().subplots()
    axes.plot([0, 1], label=plot_frame.one_line("_own"))
    plot_frame.legend_above(axes)
    assert [text.get_text().strip() for text in axes.get_legend().get_texts()] == ["_own"]


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "tether.report.notebook_figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'tether\[plot\]'"):
        plot_frame.new_figure()
