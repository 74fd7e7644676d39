"""The chart of the mean losses of both systems over the steps of a release."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tether.report.chart_canvas import (
    ACCENT_COLOR,
    BACKGROUND_COLOR,
    MUTED_COLOR,
    TEXT_COLOR,
    blank_axes,
    label_axes,
    pixel_positions,
)
from tether.report.chart_figure import Chart
from tether.report.chart_marks import chart_unit, columns, in_unit, label_level, set_round_axis
from tether.report.html_elements import Content, Markup
from tether.report.html_tables import data_table
from tether.report.number_format import NO_VALUE, format_interval, format_number
from tether.report.releases.release_sentences import of_guardrail
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tether.rounds.history import Estimate
    from tether.rounds.releases.release_history import ReleaseHistory, StepRecord

ROOM_FOR_ALPHA_LABEL = 98.0
"""The width in pixels of the label next to the line of alpha."""
SIDE_BY_SIDE = 0.09
"""How far the two systems stand left and right of their step."""


def losses_chart(history: ReleaseHistory, name: str, size: str = "full") -> Chart:
    """The mean of one loss of both systems in every step, with intervals, beside alpha."""
    limit, of = history.limits[name], of_guardrail(history, name)
    steps = [step for step in history.steps if name in {**step.old.losses, **step.new.losses}]
    unit, unit_label = chart_unit([limit.bound])
    old = [(each.number, in_unit(found, unit)) for each, found in _means(steps, name, new=False)]
    new = [(each.number, in_unit(found, unit)) for each, found in _means(steps, name, new=True)]
    alpha, bound = limit.alpha / unit, limit.bound / unit

    def draw(drawing: str, width: float, height: float, label: str) -> Markup:
        figure, axes = blank_axes(width, height, right=ROOM_FOR_ALPHA_LABEL)
        set_round_axis(axes, [step.number for step in history.steps], width)
        top = max([3 * alpha] + [1.15 * found.mean for _, found in [*old, *new]])
        axes.set_ylim(0, min(1.02 * bound, top))
        _plot(axes, old, -SIDE_BY_SIDE, MUTED_COLOR, BACKGROUND_COLOR, len(history.steps))
        _plot(axes, new, SIDE_BY_SIDE, ACCENT_COLOR, ACCENT_COLOR, len(history.steps))
        axes.axhline(alpha, color=TEXT_COLOR, linewidth=1.5)
        text = f"{history.target} {format_number(limit.alpha)}"
        label_level(axes, alpha, text, TEXT_COLOR, outside=True)
        label_axes(axes, "step", f"mean loss{unit_label}")
        shown = dict(old) | dict(new)
        heights = [shown[step.number].mean for step in steps]
        points = pixel_positions(axes, [step.number for step in steps], heights)
        return figure_to_svg(figure, name=drawing, label=label, points=points)

    place = list(history.limits).index(name)
    return Chart(
        f"losses-{place + 1}",
        f"Mean loss{of} per step",
        "Dots are the new system, rings the old one, each with a 95 % interval that is valid at "
        "all times. The promise is about both together: a new system above "
        f"{history.target} is within it as long as its share is small enough.",
        f"Mean loss{of} of both systems in {len(steps)} steps, compared with {history.target} = "
        f"{format_number(limit.alpha)}. " + _latest(steps, name),
        draw,
        data_table(
            f"Mean loss{of} per step",
            ["Step", "System", "Losses", "Mean loss", "95 % interval"],
            [row for step in reversed(steps) for row in _rows(step, name)],
        ),
        size,
        [f"Step {step.number}: {_in_words(step, name)}" for step in steps],
        [step.number for step in steps],
    )


def _means(steps: list[StepRecord], name: str, *, new: bool) -> list[tuple[StepRecord, Estimate]]:
    systems = [(step, step.new if new else step.old) for step in steps]
    return [(step, system.losses[name]) for step, system in systems if name in system.losses]


def _plot(
    axes: Axes,
    means: list[tuple[int, Estimate]],
    shift: float,
    color: str,
    face: str,
    step_count: int,
) -> None:
    """Plot means with their intervals, a little beside their steps."""
    size = 7.0 if step_count <= 30 else 5.0 if step_count <= 80 else 3.4
    ends = [
        point
        for number, found in means
        for point in (
            (number + shift, found.lower),
            (number + shift, found.upper),
            (math.nan, math.nan),
        )
    ]
    axes.plot(*columns(ends), color=color, linewidth=size / 3, alpha=0.45)
    axes.plot(
        *columns([(number + shift, found.mean) for number, found in means]),
        "o",
        markersize=size,
        markerfacecolor=face,
        markeredgecolor=color,
        markeredgewidth=1.5,
        clip_on=False,
    )


def _rows(step: StepRecord, name: str) -> list[list[Content]]:
    rows: list[list[Content]] = []
    for title, system in (("new", step.new), ("old", step.old)):
        found = system.losses.get(name)
        cells = [NO_VALUE] * 3
        if found is not None:
            cells = [f"{found.count:,}", format_number(found.mean), format_interval(found)]
        rows.append([step.number, title, *cells])
    return rows


def _in_words(step: StepRecord, name: str) -> str:
    parts = []
    for title, system in (("new", step.new), ("old", step.old)):
        found = system.losses.get(name)
        if found is not None:
            mean = format_number(found.mean)
            parts.append(f"{title} {mean} ({format_interval(found)})")
    return ", ".join(parts)


def _latest(steps: list[StepRecord], name: str) -> str:
    return f"Step {steps[-1].number}: {_in_words(steps[-1], name)}." if steps else "No losses yet."
