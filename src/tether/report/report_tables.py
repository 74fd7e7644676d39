"""What is read rather than looked at: assumptions, alarms, and every round in a table."""

from __future__ import annotations

from typing import Any

from tether.report.assumptions import GLYPHS, assumptions
from tether.report.chart import table
from tether.report.markup import Markup, element
from tether.report.number_format import NOTHING, interval, moment, number
from tether.report.sentences import written_beta
from tether.rounds.history import Estimate, History


def assumed(history: History) -> Markup:
    """Every assumption with what became of it."""
    items = [
        element(
            "li",
            element(
                "span",
                element("span", GLYPHS[each.status], aria_hidden="true", class_="glyph"),
                f" {each.status}",
                class_=f"status {each.status.split()[0]}",
            ),
            element("div", element("strong", each.title), element("p", each.how)),
        )
        for each in assumptions(history)
    ]
    return element("ul", items, class_="assumptions")


def alarms(history: History) -> Markup:
    """Every alarm: when it was raised, by what, and when and why it was cleared."""
    if not history.alarms:
        watched = number(history.alarm_risk)
        return element("p", f"None so far. The risk monitor watches for a risk above {watched}.")
    return table(
        "Alarms, the latest first",
        ["Alarm", "Round", "Monitor", "What it saw", "Raised", "Cleared", "Why it was cleared"],
        [
            [
                each.number,
                each.round,
                each.monitor,
                each.message,
                moment(each.raised),
                "▲ stands" if each.cleared is None else moment(each.cleared),
                each.reason or NOTHING,
            ]
            for each in reversed(history.alarms)
        ],
    )


def rounds(history: History) -> Markup:
    """All that is recorded of every round."""
    columns = ["Round", "Policy", "Begun", "Beta", "Promise", "Realized risk", "Limits", "Reward"]
    columns += [
        "Actions",
        "By safe",
        "After a failure",
        "For calibration",
        "Arrived",
        "Awaited",
        "Withdrawn",
        "Note",
    ]
    rows: list[list[Any]] = []
    for each in reversed(history.rounds):
        found, loss = each.calibration, each.loss
        counts = [each.rows, each.safe_rows, each.fallback_rows, each.calibration_rows]
        counts += [each.observed, each.pending, each.withdrawn]
        rows.append(
            [
                each.number,
                each.policy or "safe policy",
                moment(each.begun),
                written_beta(each),
                f"≤ {number(found.promise)}" if found is not None and found.exists else "none",
                NOTHING if loss is None else _risk(loss, history.alpha),
                NOTHING if loss is None else interval(loss),
                NOTHING if each.reward is None else number(each.reward.mean),
                *(f"{value:,}" for value in counts),
                each.note or NOTHING,
            ]
        )
    return table("All rounds, the latest first", columns, rows)


def _risk(loss: Estimate, alpha: float) -> Any:
    if loss.lower <= alpha:
        return number(loss.mean)
    return element("span", number(loss.mean), " ▲ clearly above alpha", class_="above")
