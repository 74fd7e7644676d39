"""The chart of the new system's share over the steps of a release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tether.report.chart_canvas import (
    FONT_SIZE,
    TEXT_COLOR,
    blank_axes,
    label_axes,
    pixel_positions,
)
from tether.report.chart_figure import Chart
from tether.report.chart_marks import plot_line, set_round_axis
from tether.report.html_elements import Markup
from tether.report.html_tables import data_table
from tether.report.releases.release_sentences import format_share
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tether.rounds.releases.release_history import ReleaseHistory, StepRecord

PIXELS_PER_SHARE_LABEL = 60
"""Dots that are closer together than this have no label of their own."""

SHARE_AXIS = (-0.03, 1.08)
"""From where to where the axis goes, so that dots at 0 and 1 are whole."""
SHARES_LABELED_BELOW = 0.9
"""Above a larger share there is no room for its label."""


def share_chart(history: ReleaseHistory) -> Chart:
    """The share that every step began with, and the alarms that ended some of them."""
    numbers = [step.number for step in history.steps]
    shares = [step.share for step in history.steps]
    alarms = [step.number for step in history.steps if step.stopped_by is not None]
    stopped = f"; alarms in steps {', '.join(map(str, alarms))}" if alarms else ""

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = blank_axes(width, height)
        set_round_axis(axes, numbers, width)
        axes.set_ylim(*SHARE_AXIS)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        _mark_alarms(axes, alarms)
        plot_line(axes, numbers, shares, hollow=[share == 0 for share in shares])
        if len(shares) * PIXELS_PER_SHARE_LABEL <= width:
            neighbors = zip([*shares[:1], *shares], [*shares[1:], *shares[-1:]], strict=False)
            for number, share, beside in zip(numbers, shares, neighbors, strict=True):
                _label(axes, number, share, *beside)
        label_axes(axes, "step", "share of the keys")
        points = pixel_positions(axes, numbers, shares)
        return figure_to_svg(figure, name=name, label=label, points=points)

    return Chart(
        "share",
        "Share of the new system per step",
        "The share of the keys in each step, until an alarm if there was one. A ring is a share of "
        "0. A dotted line is an alarm: from then on the old system answers all keys of the step.",
        f"Share of the new system over {len(shares)} steps, latest {format_share(shares[-1])}, "
        f"largest {format_share(max(shares))}{stopped}.",
        draw,
        data_table(
            "Share of the new system per step",
            ["Step", "Share", "Why"],
            [[step.number, _share_text(step), step.why] for step in history.steps[::-1]],
        ),
        "full",
        [f"Step {step.number}: {_share_text(step)}; {step.why}" for step in history.steps],
        numbers,
    )


def _share_text(step: StepRecord) -> str:
    """The share of a step, also after an alarm, with how many of its keys the new system had."""
    if step.stopped_by is None or step.share == 0:
        return format_share(step.share)
    rows = step.new.rows + step.old.rows
    then = f"then {format_share(0.0)}: {step.new.rows:,} of {rows:,} keys had the new system"
    return f"{format_share(step.share)}, {then}"


def _mark_alarms(axes: Axes, steps: list[int]) -> None:
    """Mark the steps with alarms by dotted lines."""
    for number in steps:
        axes.axvline(number, color=TEXT_COLOR, linewidth=1, dashes=(1, 3))
        where = (number, SHARE_AXIS[1])
        axes.annotate("alarm", where, (5, -3), textcoords="offset points", **_style("top"))


def _label(axes: Axes, number: int, share: float, before: float, after: float) -> None:
    """Write a share at its dot, beside a rising line: above it, or below one near the upper end."""
    below = share > SHARES_LABELED_BELOW
    across = ("left" if before < share else "center") if below else "center"
    if not below and after > share:
        across = "right"
    where = {"left": 4, "center": 0, "right": 3}[across], -9 if below else 8
    text, style = format_share(share), _style("top" if below else "bottom")
    axes.annotate(text, (number, share), where, textcoords="offset points", ha=across, **style)


def _style(vertical: str) -> dict[str, Any]:
    return {"color": TEXT_COLOR, "fontsize": FONT_SIZE, "va": vertical}
