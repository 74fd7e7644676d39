"""The chart of beta over the rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tether.report.beta_axis import beta_scale
from tether.report.chart_canvas import (
    blank_axes,
    label_axes,
    pixel_positions,
)
from tether.report.chart_figure import Chart
from tether.report.chart_marks import plot_line, set_round_axis
from tether.report.html_elements import Markup
from tether.report.html_tables import data_table
from tether.report.number_format import NO_VALUE, format_beta
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from tether.rounds.history import History


def beta_chart(history: History) -> Chart:
    """Beta of every round on a logarithmic scale, with separate places for 0 and infinity."""
    records = history.rounds
    numbers = [record.number for record in records]
    log_betas = [
        -math.inf if record.calibration is None else record.calibration.log_beta
        for record in records
    ]
    scale = beta_scale(log_betas)
    safe_only = [log_beta == -math.inf for log_beta in log_betas]
    unrestricted = [log_beta == math.inf for log_beta in log_betas]

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = blank_axes(width, height, 88.0 if any(unrestricted) else 66.0)
        set_round_axis(axes, numbers, width)
        axes.set_yticks(list(scale.ticks), list(scale.ticks.values()))
        axes.set_ylim(*scale.limits)
        plot_line(axes, numbers, scale.heights, hollow=safe_only)
        label_axes(axes, "round", "beta")
        points = pixel_positions(axes, numbers, scale.heights)
        return figure_to_svg(figure, name=name, label=label, points=points)

    return Chart(
        "beta",
        "Beta",
        "0 is the safe policy, ∞ the optimized policy; the scale in between is logarithmic.",
        f"Beta over {len(records)} rounds, latest {format_beta(log_betas[-1])}; {sum(safe_only)} "
        f"with the safe policy only, {sum(unrestricted)} with the optimized policy unrestricted.",
        draw,
        data_table(
            "Beta per round",
            ["Round", "Optimized policy", "Beta"],
            [
                [record.number, record.policy or NO_VALUE, format_beta(log_beta)]
                for record, log_beta in reversed(list(zip(records, log_betas, strict=True)))
            ],
        ),
        tips=[
            f"Round {number}: beta {format_beta(log_beta)}"
            for number, log_beta in zip(numbers, log_betas, strict=True)
        ],
        rounds=numbers,
    )
