"""Charts of the calibrations of all rounds: beta, acceptance rate and effective sample size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tether.report.beta_axis import beta_ticks
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
from tether.report.number_format import NO_VALUE, format_beta, format_number, format_percent
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from tether.rounds.history import History

MIN_HALF_RANGE = 0.7
"""The axis of log beta extends at least this far on either side of its middle."""


def beta_chart(history: History) -> Chart:
    """Beta of every round on a logarithmic scale, with separate places for 0 and infinity."""
    records = history.rounds
    numbers = [record.number for record in records]
    log_betas = [
        -math.inf if record.calibration is None else record.calibration.log_beta
        for record in records
    ]
    finite = [log_beta for log_beta in log_betas if math.isfinite(log_beta)]
    low = min(finite, default=-MIN_HALF_RANGE)
    high = max(finite, default=MIN_HALF_RANGE)
    middle, half_range = (low + high) / 2, max((high - low) / 2, MIN_HALF_RANGE)
    low, high, step = middle - half_range, middle + half_range, 0.45 * half_range
    heights = [min(max(log_beta, low - step), high + step) for log_beta in log_betas]
    safe_only = [log_beta == -math.inf for log_beta in log_betas]
    unrestricted = [log_beta == math.inf for log_beta in log_betas]

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = blank_axes(width, height, 88.0 if any(unrestricted) else 66.0)
        set_round_axis(axes, numbers, width)
        ticks = beta_ticks(low, high)
        if any(safe_only):
            ticks[low - step] = "0 (safe)"
        if any(unrestricted):
            ticks[high + step] = "∞ (optimized)"
        axes.set_yticks(list(ticks), list(ticks.values()))
        axes.set_ylim(
            low - step * (1.5 if any(safe_only) else 0.5),
            high + step * (1.5 if any(unrestricted) else 0.5),
        )
        plot_line(axes, numbers, heights, hollow=safe_only)
        label_axes(axes, "round", "beta")
        points = pixel_positions(axes, numbers, heights)
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


def acceptance_chart(history: History) -> Chart:
    """The share of proposed draws that a rejection sampler accepts."""
    rates = [
        (record.number, record.calibration.acceptance)
        for record in history.rounds
        if record.calibration is not None and math.isfinite(record.calibration.acceptance)
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


def sample_size_chart(history: History) -> Chart:
    """The effective sample size of every calibration, compared with the rows of its log."""
    calibrated = [
        (record.number, record.calibration)
        for record in history.rounds
        if record.calibration is not None
    ]
    sizes = [
        (number, calibration.effective_sample_size, calibration.rows)
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
                    format_number(calibration.effective_sample_size),
                    f"{calibration.rows:,}",
                    format_percent(calibration.max_weight),
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
