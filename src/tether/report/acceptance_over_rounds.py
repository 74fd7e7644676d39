"""The chart of the acceptance rate over the rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tether.report.chart_canvas import (
    blank_axes,
    label_axes,
    pixel_positions,
)
from tether.report.chart_figure import Chart
from tether.report.chart_marks import columns, plot_line, set_round_axis
from tether.report.html_elements import Markup
from tether.report.html_tables import data_table
from tether.report.number_format import format_percent
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from tether.rounds.history import History


def acceptance_chart(history: History) -> Chart:
    """The share of proposed draws that a rejection sampler accepts."""
    rates = [
        (record.number, record.calibration.measured.acceptance)
        for record in history.rounds
        if record.calibration is not None and math.isfinite(record.calibration.measured.acceptance)
    ]
    latest = format_percent(rates[-1][1] if rates else None)

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = blank_axes(width, height)
        set_round_axis(axes, [record.number for record in history.rounds], width)
        axes.set_ylim(0, 1.05)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        numbers, values = columns(rates)
        plot_line(axes, numbers, values)
        label_axes(axes, "round", "acceptance rate")
        points = pixel_positions(axes, numbers, values)
        return figure_to_svg(figure, name=name, label=label, points=points)

    return Chart(
        "acceptance",
        "Acceptance rate",
        "The share of draws that a rejection sampler accepts. Its inverse is the mean number of "
        "draws per action.",
        f"Acceptance rate over {len(rates)} rounds, latest {latest}.",
        draw,
        data_table(
            "Acceptance rate per round",
            ["Round", "Acceptance rate"],
            [[number, format_percent(rate)] for number, rate in reversed(rates)],
        ),
        tips=[
            f"Round {number}: {format_percent(rate)} of draws accepted" for number, rate in rates
        ],
        rounds=[number for number, _ in rates],
    )
