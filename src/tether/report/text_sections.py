"""The sections of the page without charts: assumptions, alarms, and all rounds in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.control.calibration import Calibration
from tether.report.assumptions import STATUS_SYMBOLS, assumptions
from tether.report.html_elements import Content, Markup, element, join
from tether.report.html_tables import data_table
from tether.report.number_format import NO_VALUE, format_interval, format_number, format_time
from tether.report.sentences import missing_losses_sentences, round_beta, target_name

if TYPE_CHECKING:
    from tether.rounds.history import Estimate, History

ROUND_COLUMNS = (
    "Round",
    "Policy",
    "Started",
    "Beta",
    "Promise",
    "Realized risk",
    "95 % interval",
    "Mean reward",
    "Actions",
    "By the safe policy",
    "After a failure",
    "For calibration",
    "Losses arrived",
    "Losses pending",
    "Withdrawn",
    "Note",
)


def assumptions_section(history: History) -> Markup:
    """Every assumption with its status."""
    items = [
        element(
            "li",
            element(
                "span",
                element("span", STATUS_SYMBOLS[assumption.status], aria_hidden="true"),
                f" {assumption.status}",
                class_=f"status {assumption.status.split()[0]}",
            ),
            element(
                "div", element("strong", assumption.title), element("p", assumption.explanation)
            ),
        )
        for assumption in assumptions(history)
    ]
    return element("ul", items, class_="assumptions")


def alarms_section(history: History) -> Markup:
    """Every alarm: when it was raised, by what, and when and why it was cleared."""
    if not history.alarms:
        level = format_number(history.alarm_risk)
        return element(
            "p", f"None so far. The risk monitor raises an alarm if the risk is above {level}."
        )
    return data_table(
        "Alarms, latest first",
        ["Alarm", "Round", "Monitor", "Message", "Raised", "Cleared", "Why it was cleared"],
        [
            [
                alarm.number,
                alarm.round,
                alarm.monitor,
                alarm.message,
                format_time(alarm.raised),
                "▲ still active" if alarm.cleared is None else format_time(alarm.cleared),
                alarm.reason or NO_VALUE,
            ]
            for alarm in reversed(history.alarms)
        ],
    )


def all_rounds_section(history: History) -> Markup:
    """Everything that is recorded about every round, and which losses are missing."""
    rows: list[list[Content]] = []
    for record in reversed(history.rounds):
        calibration, loss = record.calibration, record.loss
        counts = [
            record.rows,
            record.safe_rows,
            record.fallback_rows,
            record.calibration_rows,
            record.observed,
            record.pending,
            record.withdrawn,
        ]
        rows.append(
            [
                record.number,
                record.policy or "safe policy",
                format_time(record.begun),
                round_beta(record),
                _promised(calibration),
                NO_VALUE if loss is None else _realized_risk(loss, history),
                NO_VALUE if loss is None else format_interval(loss),
                NO_VALUE if record.reward is None else format_number(record.reward.mean),
                *(f"{count:,}" for count in counts),
                record.note or NO_VALUE,
            ]
        )
    return join(
        element("p", missing_losses_sentences(history)),
        data_table("All rounds, latest first", ROUND_COLUMNS, rows),
    )


def _promised(calibration: Calibration | None) -> str:
    if calibration is None or not calibration.exists:
        return "none"
    promise = f"≤ {format_number(calibration.promise)}"
    return promise if calibration.useful else f"{promise}, of no use"


def _realized_risk(loss: Estimate, history: History) -> Content:
    if loss.lower <= history.alpha:
        return format_number(loss.mean)
    compared = f" ▲ clearly above {target_name(history.target)}"
    return element("span", format_number(loss.mean), compared, class_="above-alpha")
