"""The chart of the effective sample size over the rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.report.chart_canvas import (
    LINE_COLOR,
    MUTED_COLOR,
    blank_axes,
    label_axes,
    pixel_positions,
)
from tether.report.chart_figure import Chart
from tether.report.chart_marks import columns, integer_locator, plot_line, set_round_axis
from tether.report.html_elements import Markup
from tether.report.html_tables import data_table
from tether.report.number_format import format_number, format_percent
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from tether.rounds.history import History


def sample_size_chart(history: History) -> Chart:
    """The effective sample size of every calibration, compared with the rows of its log."""
    calibrated = [
        (record.number, record.calibration)
        for record in history.rounds
        if record.calibration is not None
    ]
    sizes = [
        (number, calibration.measured.effective_sample_size, calibration.rows)
        for number, calibration in calibrated
    ]
    latest = f"{format_number(sizes[-1][1])} of {sizes[-1][2]:,} rows" if sizes else "none"

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = blank_axes(width, height)
        set_round_axis(axes, [record.number for record in history.rounds], width)
        numbers, effective, rows = columns(sizes, 3)
        axes.set_ylim(0, 1.12 * max(rows, default=1))
        axes.fill_between(numbers, rows, color=LINE_COLOR, alpha=0.7, linewidth=0)
        axes.plot(numbers, rows, color=MUTED_COLOR, linewidth=1, dashes=(4, 3))
        plot_line(axes, numbers, effective)
        axes.yaxis.set_major_locator(integer_locator(5))
        axes.yaxis.set_major_formatter(lambda value, _: format_number(value))
        label_axes(axes, "round", "rows")
        points = pixel_positions(axes, numbers, effective)
        return figure_to_svg(figure, name=name, label=label, points=points)

    return Chart(
        "effective",
        "Effective sample size",
        "How many equally weighted rows the weighted log is worth, compared with the rows it has "
        f"(dashed). Latest: {latest}.",
        f"Effective sample size over {len(sizes)} rounds, latest {latest}.",
        draw,
        data_table(
            "Effective sample size per round",
            ["Round", "Effective sample size", "Rows", "Largest weight"],
            [
                [
                    number,
                    format_number(calibration.measured.effective_sample_size),
                    f"{calibration.rows:,}",
                    format_percent(calibration.measured.max_weight),
                ]
                for number, calibration in reversed(calibrated)
            ],
        ),
        tips=[
            f"Round {number}: worth {format_number(effective)} of {rows:,} rows"
            for number, effective, rows in sizes
        ],
        rounds=[number for number, *_ in sizes],
    )
