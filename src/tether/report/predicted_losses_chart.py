"""The calibration plot of the loss model: predicted against realized loss, round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.report.chart_canvas import (
    ACCENT_COLOR,
    MUTED_COLOR,
    TEXT_COLOR,
    blank_axes,
    label_axes,
    pixel_positions,
)
from tether.report.chart_figure import Chart
from tether.report.chart_marks import chart_unit, in_unit, label_level
from tether.report.html_elements import Markup
from tether.report.html_tables import data_table
from tether.report.number_format import format_number
from tether.report.sentences import loss_suffix
from tether.report.svg_export import figure_to_svg

if TYPE_CHECKING:
    from tether.rounds.history import Estimate, History, RoundRecord

ERRORS_TO_DIFFER = 2.0
"""By how many standard errors a realized loss differs from the predicted one to be said to."""


def predicted_losses_chart(history: History, name: str) -> Chart:
    """The predicted loss of what each round served, against the mean loss that it had."""
    of, found = loss_suffix(history, name), _pairs(history, name)
    unit, unit_label = chart_unit([history.limits[name].bound])
    alpha = history.limits[name].alpha / unit
    x = [predicted / unit for _, predicted, _ in found]
    realized = [in_unit(loss, unit) for _, _, loss in found]

    def draw(drawing: str, width: float, height: float, label: str) -> Markup:
        figure, axes = blank_axes(width, height, 84.0, right=74.0)
        top = 1.2 * max([alpha, *x, *(loss.mean + loss.standard_error for loss in realized)])
        axes.set_xlim(0, top)
        axes.set_ylim(0, top)
        axes.plot([0, top], [0, top], color=MUTED_COLOR, linewidth=1, dashes=(4, 3))
        axes.axhline(alpha, color=TEXT_COLOR, linewidth=1.5)
        label_level(axes, alpha, f"{history.target} {format_number(alpha * unit)}", outside=True)
        means = [loss.mean for loss in realized]
        errors = [loss.standard_error for loss in realized]
        axes.errorbar(
            x, means, yerr=errors, fmt="o", color=ACCENT_COLOR, markersize=6, elinewidth=2
        )
        label_axes(axes, f"predicted{unit_label}", f"mean loss{unit_label}")
        return figure_to_svg(
            figure, name=drawing, label=label, points=pixel_positions(axes, x, means)
        )

    place = list(history.limits).index(name)
    return Chart(
        f"predicted-{place + 1}" if place else "predicted",
        f"Predicted and realized loss{of}",
        "What the loss model of each round, fitted on training rows, predicted of the policy that "
        "served, and the mean loss that its actions had, with one standard error. On the dashed "
        "line the two agree. The promise does not rest on the prediction.",
        _in_words(found, of),
        draw,
        data_table(
            f"Predicted and realized loss{of} per round",
            ["Round", "Loss model", "Predicted", "Realized", "Standard error", "Losses"],
            [
                [
                    record.number,
                    "" if record.aim is None else record.aim.models.get(name, ""),
                    format_number(predicted),
                    format_number(loss.mean),
                    format_number(loss.standard_error),
                    f"{loss.count:,}",
                ]
                for record, predicted, loss in reversed(found)
            ],
        ),
        tips=[
            f"Round {record.number}: predicted {format_number(predicted)}, realized "
            f"{format_number(loss.mean)} ± {format_number(loss.standard_error)}"
            for record, predicted, loss in found
        ],
        rounds=[record.number for record, _, _ in found],
    )


def _pairs(history: History, name: str) -> list[tuple[RoundRecord, float, Estimate]]:
    """The rounds with a predicted and a realized loss."""
    return [
        (record, record.aim.predicted[name], record.realized[name])
        for record in history.rounds
        if record.aim is not None and name in record.aim.predicted and name in record.realized
    ]


def _in_words(found: list[tuple[RoundRecord, float, Estimate]], of: str) -> str:
    """The text alternative of the chart."""
    differ = sum(
        abs(loss.mean - predicted) > ERRORS_TO_DIFFER * loss.standard_error
        for _, predicted, loss in found
    )
    return (
        f"Predicted against realized loss{of} of {len(found)} rounds; in {differ} of them they "
        f"differ by more than {ERRORS_TO_DIFFER:g} standard errors."
    )
