"""The chart of mean reward, compared with the safe policy's own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tether.report.chart_canvas import (
    LINE_COLOR,
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
    plot_estimates,
    set_round_axis,
)
from tether.report.html_elements import Markup
from tether.report.html_tables import data_table
from tether.report.number_format import NO_VALUE, format_interval, format_number
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from tether.rounds.history import History


def reward_chart(history: History) -> Chart:
    """The mean reward of every round, compared with the safe policy's own."""
    rewards = [(record, record.reward) for record in history.rounds if record.reward is not None]
    safe = history.safe_reward
    latest = "none observed"
    if rewards:
        record, reward = rewards[-1]
        latest = f"{format_number(reward.mean)} in round {record.number}"
    comparison = (
        "" if safe is None else f", compared with {format_number(safe.mean)} of the safe policy"
    )
    explanation = "" if safe is None else " (line with its interval)"

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        every = [reward for _, reward in rewards] + ([] if safe is None else [safe])
        ends = [end for each in every for end in (each.mean, each.lower, each.upper)]
        unit, unit_label = chart_unit(ends)
        drawn = [(record, in_unit(reward, unit)) for record, reward in rewards]
        level = None if safe is None else in_unit(safe, unit)
        figure, axes = blank_axes(width, height, right=84.0)
        set_round_axis(axes, [record.number for record in history.rounds], width)
        if level is not None:
            if math.isfinite(level.lower) and math.isfinite(level.upper):
                axes.axhspan(level.lower, level.upper, facecolor=LINE_COLOR, alpha=0.7, linewidth=0)
            axes.axhline(level.mean, color=TEXT_COLOR, linewidth=1.5)
        plot_estimates(axes, drawn, len(history.rounds))
        axes.margins(y=0.15)
        axes.autoscale(axis="y")
        if level is not None:
            label_level(axes, level.mean, "safe policy", TEXT_COLOR, outside=True)
        label_axes(axes, "round", f"mean reward{unit_label}")
        points = pixel_positions(
            axes, [record.number for record, _ in drawn], [reward.mean for _, reward in drawn]
        )
        return figure_to_svg(figure, name=name, label=label, points=points)

    return Chart(
        "reward",
        "Mean reward",
        f"The mean reward of each round with its 95 % interval: {latest}{comparison}{explanation}.",
        f"Mean reward of {len(rewards)} rounds: {latest}{comparison}.",
        draw,
        data_table(
            "Mean reward per round",
            ["Round", "Rewards", "Mean reward", "95 % interval", "Safe policy's mean"],
            [
                [
                    record.number,
                    f"{reward.count:,}",
                    format_number(reward.mean),
                    format_interval(reward),
                    NO_VALUE if safe is None else format_number(safe.mean),
                ]
                for record, reward in reversed(rewards)
            ],
        ),
        tips=[
            f"Round {record.number}: {format_number(reward.mean)} ({format_interval(reward)})"
            for record, reward in rewards
        ],
        rounds=[record.number for record, _ in rewards],
    )
