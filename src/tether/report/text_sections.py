"""The sections of the page without charts: assumptions, alarms, and all rounds in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tether.report.assumptions import STATUS_SYMBOLS, Assumption, assumptions
from tether.report.html_elements import Content, Markup, element, join
from tether.report.html_tables import data_table
from tether.report.number_format import NO_VALUE, format_interval, format_number, format_time
from tether.report.sentences import (
    loss_suffix,
    missing_losses_sentences,
    round_beta,
    target_name,
)

if TYPE_CHECKING:
    from tether.rounds.history import Alarm, Estimate, History, RoundRecord

COLUMNS_BEFORE_RISKS = ("Round", "Policy", "Started", "Beta", "Promise")
COLUMNS_AFTER_RISKS = (
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
    return assumption_list(assumptions(history))


def assumption_list(listed: Sequence[Assumption]) -> Markup:
    """Assumptions, each with its status."""
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
        for assumption in listed
    ]
    return element("ul", items, class_="assumptions")


def alarms_section(history: History) -> Markup:
    """Every alarm: when it was raised, by what, and when and why it was cleared."""
    if not history.alarms:
        levels = " or ".join(
            f"the risk{loss_suffix(history, name)} is above {format_number(limit.alarm_risk)}"
            for name, limit in history.limits.items()
        )
        return element("p", f"None so far. A risk monitor raises an alarm if {levels}.")
    return alarms_table(history.alarms, "Round")


def alarms_table(alarms: Sequence[Alarm], where: str) -> Markup:
    """The alarms, latest first; `where` is what they were raised in."""
    return data_table(
        "Alarms, latest first",
        ["Alarm", where, "Monitor", "Message", "Raised", "Cleared", "Why it was cleared"],
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
            for alarm in reversed(alarms)
        ],
    )


def all_rounds_section(history: History) -> Markup:
    """Everything that is recorded about every round, and which losses are missing."""
    rows: list[list[Content]] = []
    for record in reversed(history.rounds):
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
                _promised(record),
                *(cell for name in history.limits for cell in _realized(history, record, name)),
                NO_VALUE if record.reward is None else format_number(record.reward.mean),
                *(f"{count:,}" for count in counts),
                (record.why if history.is_ramp else record.note) or NO_VALUE,
            ]
        )
    return join(
        element("p", missing_losses_sentences(history)),
        data_table("All rounds, latest first", _columns(history), rows),
    )


def _columns(history: History) -> list[str]:
    """The headings, with two columns for each loss."""
    realized = []
    for name in history.limits:
        of = loss_suffix(history, name)
        realized += [f"Realized risk{of}", f"95 % interval{of}"]
    share = {"Beta": "Share"} if history.is_ramp else {}
    before = [share.get(each, each) for each in COLUMNS_BEFORE_RISKS]
    return [*before, *realized, *COLUMNS_AFTER_RISKS]


def _realized(history: History, record: RoundRecord, name: str) -> tuple[Content, Content]:
    loss = record.losses.get(name)
    if loss is None:
        return NO_VALUE, NO_VALUE
    return _realized_risk(loss, history, name), format_interval(loss)


def _promised(record: RoundRecord) -> str:
    """What is promised for a round, by its beta or in a ramp by its share."""
    found = record.calibration or record.ramp_share
    exists = record.share > 0 or (record.calibration is not None and record.calibration.exists)
    if found is None or not exists:
        return "none"
    promises = record.promises
    each = [f"{name} ≤ {format_number(value)}" for name, value in promises.items()]
    if len(each) == 1:
        each = [f"≤ {format_number(value)}" for value in promises.values()]
    promise = ", ".join(each)
    return promise if found.useful else f"{promise}, of no use"


def _realized_risk(loss: Estimate, history: History, name: str) -> Content:
    if loss.lower <= history.limits[name].alpha:
        return format_number(loss.mean)
    compared = f" ▲ clearly above {target_name(history.target)}"
    return element("span", format_number(loss.mean), compared, class_="above-alpha")
