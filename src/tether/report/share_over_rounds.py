"""The chart of the share over the rounds of a run that ramps its policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.report.chart_canvas import blank_axes, label_axes, pixel_positions
from tether.report.chart_figure import Chart
from tether.report.chart_marks import plot_line, set_round_axis
from tether.report.html_elements import Markup
from tether.report.html_tables import data_table
from tether.report.number_format import NO_VALUE
from tether.report.sentences import round_beta
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from tether.rounds.history import History

SHARE_TICKS = {0.0: "0 (safe)", 0.25: "25 %", 0.5: "50 %", 0.75: "75 %", 1.0: "100 %"}


def share_chart(history: History) -> Chart:
    """The share of the optimized policy in every round."""
    records = history.rounds
    numbers = [record.number for record in records]
    shares = [record.share for record in records]

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = blank_axes(width, height, 66.0)
        set_round_axis(axes, numbers, width)
        axes.set_yticks(list(SHARE_TICKS), list(SHARE_TICKS.values()))
        axes.set_ylim(-0.08, 1.08)
        plot_line(axes, numbers, shares, hollow=[share == 0 for share in shares])
        label_axes(axes, "round", "share")
        points = pixel_positions(axes, numbers, shares)
        return figure_to_svg(figure, name=name, label=label, points=points)

    return Chart(
        "share",
        "Share of the optimized policy",
        "The reference policy answers the other actions.",
        f"The share over {len(records)} rounds, latest {shares[-1]:.3%}.",
        draw,
        data_table(
            "Share per round",
            ["Round", "Optimized policy", "Share", "What decided it"],
            [
                [record.number, record.policy or NO_VALUE, round_beta(record), record.why]
                for record in reversed(records)
            ],
        ),
        tips=[f"Round {record.number}: share {record.share:.3%}" for record in records],
        rounds=numbers,
    )
