"""The section on aiming: what each round chose and why, and how good the loss model was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.report.html_elements import Content, Markup, element, join
from tether.report.html_tables import data_table
from tether.report.number_format import NO_VALUE, format_beta, format_number
from tether.report.predicted_losses_chart import predicted_losses_chart
from tether.report.sentences import loss_suffix, round_beta

if TYPE_CHECKING:
    from tether.rounds.history import History, RoundRecord


def aim_section(history: History) -> Markup:
    """A calibration plot of the loss model of each loss, and a table of all choices."""
    charts = [predicted_losses_chart(history, name) for name in history.limits]
    figures = [chart.figure() for chart in charts if chart.tips]
    rows = [_row(history, record) for record in reversed(history.rounds) if record.aim is not None]
    return join(
        element(
            "p",
            "Each round fits a loss model on its training rows, tilts the optimized policy by it "
            "where this is expected to earn more after calibration, and calibrates what it chose. "
            "Calibration rows take no part in this. The last columns show what the plain "
            "optimized policy would have been allowed on the same calibration rows.",
        ),
        element("div", figures, class_="halves") if figures else None,
        data_table("Choices, latest first", _headings(history), rows),
    )


def _headings(history: History) -> list[str]:
    headings = ["Round", "Calibrated", "Why", "Training rows"]
    for name in history.limits:
        of = loss_suffix(history, name)
        headings += [f"Predicted before{of}", f"aimed{of}", f"served{of}", f"Realized ± se{of}"]
    headings += ["Mean reward", "Share" if history.is_ramp else "Beta"]
    return headings if history.is_ramp else [*headings, "Beta of the plain policy"]


def _row(history: History, record: RoundRecord) -> list[Content]:
    aim = record.aim
    assert aim is not None
    cells: list[Content] = [record.number, aim.candidate, aim.why, f"{aim.rows:,}"]
    for name in history.limits:
        for predicted in (aim.before, aim.aimed, aim.predicted):
            cells.append(format_number(predicted[name]) if name in predicted else NO_VALUE)
        loss = record.realized.get(name)
        cells.append(
            NO_VALUE
            if loss is None
            else f"{format_number(loss.mean)} ± {format_number(loss.standard_error)}"
        )
    reward = record.reward
    cells += [NO_VALUE if reward is None else format_number(reward.mean), round_beta(record)]
    if not history.is_ramp:
        plain = aim.plain_log_beta
        cells.append(NO_VALUE if plain is None else format_beta(plain))
    return cells
