"""The chart of realized risk: the mean loss of every round, compared with alpha."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tether.report.chart_canvas import (
    ABOVE_ALPHA_COLOR,
    FONT_SIZE,
    MUTED_COLOR,
    TEXT_COLOR,
    blank_axes,
    label_axes,
    pixel_positions,
)
from tether.report.chart_figure import Chart
from tether.report.chart_marks import (
    chart_unit,
    in_unit,
    label_level,
    move_apart,
    plot_estimates,
    set_round_axis,
)
from tether.report.html_elements import Markup
from tether.report.html_tables import data_table
from tether.report.number_format import format_interval, format_number
from tether.report.sentences import list_rounds, loss_suffix, target_name
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from tether.rounds.history import Estimate, History, RoundRecord

MAX_LABELED_ALARMS = 6
"""With more alarms than this, their labels in the chart would overlap and are left out."""
RIGHT_MARGIN = 98.0
"""The width in pixels of the labels next to the lines."""
LABEL_HEIGHT = 14.0
"""The height in pixels that a label next to a line takes."""


def realized_risk_chart(history: History, name: str) -> Chart:
    """The mean of one loss in every round with its interval, compared with alpha."""
    limit, of = history.limits[name], loss_suffix(history, name)
    losses = [(record, record.losses[name]) for record in history.rounds if name in record.losses]
    tolerated, named = limit.alpha, target_name(history.target)
    unit, unit_label = chart_unit([limit.bound])
    alpha, alarm_level = tolerated / unit, limit.alarm_risk / unit
    drawn = [(record, in_unit(loss, unit)) for record, loss in losses]
    round_numbers = [record.number for record in history.rounds]

    def draw(drawing: str, width: float, height: float, label: str) -> Markup:
        figure, axes = blank_axes(width, height, right=RIGHT_MARGIN)
        set_round_axis(axes, round_numbers, width)
        top = max([3 * alpha, 1.1 * alarm_level] + [1.15 * loss.mean for _, loss in drawn])
        top = min(limit.bound / unit * 1.02, max(top, 1.3 * alpha))
        axes.set_ylim(0, top)
        axes.axhspan(alpha, top, facecolor=ABOVE_ALPHA_COLOR, alpha=0.06, linewidth=0)
        rounds_with_alarm = {alarm.round for alarm in history.alarms}
        for number in rounds_with_alarm:
            axes.axvline(number, color=TEXT_COLOR, linewidth=1, dashes=(1, 3))
            if len(rounds_with_alarm) <= MAX_LABELED_ALARMS:
                style: dict[str, Any] = {"color": TEXT_COLOR, "fontsize": FONT_SIZE, "va": "top"}
                axes.annotate("alarm", (number, top), (5, -3), textcoords="offset points", **style)
        plot_estimates(axes, drawn, len(history.rounds), alpha)
        axes.axhline(alpha, color=TEXT_COLOR, linewidth=1.5)
        alpha_label = alpha
        if alarm_level != alpha:
            axes.axhline(alarm_level, color=MUTED_COLOR, linewidth=1, dashes=(4, 3))
            alpha_label, level_label = move_apart(alpha, alarm_level, LABEL_HEIGHT * top / height)
            text = f"alarm at {format_number(limit.alarm_risk)}"
            label_level(axes, level_label, text, MUTED_COLOR, outside=True)
        alpha_text = f"{history.target} {format_number(tolerated)}"
        label_level(axes, alpha_label, alpha_text, TEXT_COLOR, outside=True)
        label_axes(axes, "round", f"mean loss{unit_label}")
        points = pixel_positions(
            axes, [record.number for record, _ in drawn], [loss.mean for _, loss in drawn]
        )
        return figure_to_svg(figure, name=drawing, label=label, points=points)

    place = list(history.limits).index(name)
    return Chart(
        f"risk-{place + 1}" if place else "risk",
        f"Realized risk{of} per round",
        "The mean loss of each round's policy, with a 95 % interval that is valid at all times. A "
        f"dot is at most {named}; an open triangle is above it, but its interval includes it; a "
        "filled triangle is clearly above. A ring is a round in which only the safe policy acted.",
        _risk_in_words(losses, tolerated, named, of),
        draw,
        data_table(
            f"Realized risk{of} per round",
            ["Round", "Losses", "Mean loss", "95 % interval", f"Compared with {named}"],
            [
                [
                    record.number,
                    f"{loss.count:,}",
                    format_number(loss.mean),
                    format_interval(loss),
                    _compare(loss, tolerated, named),
                ]
                for record, loss in reversed(losses)
            ],
        ),
        "full",
        [
            f"Round {record.number}: {format_number(loss.mean)} ({format_interval(loss)}), "
            f"{_compare(loss, tolerated, named)}"
            for record, loss in losses
        ],
        [record.number for record, _ in losses],
    )


def _compare(loss: Estimate, tolerated: float, named: str) -> str:
    if loss.lower > tolerated:
        return f"clearly above {named}"
    if loss.mean > tolerated:
        return f"above {named}, interval includes {named}"
    return f"at most {named}"


def _risk_in_words(
    losses: list[tuple[RoundRecord, Estimate]], alpha: float, named: str, of: str
) -> str:
    """The text alternative of the chart of realized risk."""
    above = [record.number for record, loss in losses if loss.mean > alpha]
    clearly_above = [record.number for record, loss in losses if loss.lower > alpha]
    compared = f"compared with {named} = {format_number(alpha)}"
    text = f"Realized risk{of} of {len(losses)} rounds {compared}. "
    if not above:
        return text + f"No mean is above {named}."
    text += f"The mean is above {named} in {list_rounds(above)}"
    if clearly_above:
        text += f"; the whole interval is above {named} in {list_rounds(clearly_above)}"
    return text + "."
