"""The tables of a release: all steps, and what people did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.report.html_elements import Content, Markup, element, join
from tether.report.html_tables import data_table
from tether.report.number_format import format_number, format_time
from tether.report.releases.release_sentences import (
    format_share,
    format_term,
    of_guardrail,
    window_text,
)
from tether.report.text_sections import alarms_table

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import ReleaseHistory, StepRecord


def steps_table(history: ReleaseHistory) -> Markup:
    """Every step with its share, the terms of its promise, its rows and its reason."""
    promises = [f"Promise{of_guardrail(history, name)}" for name in history.limits]
    headings = ["Step", "Began", "Share", "Keys, new", "Keys, old", *promises, "Window", "Why"]
    rows: list[list[Content]] = [
        [
            step.number,
            format_time(step.begun),
            format_share(step.share),
            f"{step.new.rows:,}",
            f"{step.old.rows:,}",
            *(_promise(step, name) for name in history.limits),
            window_text(step, history.confidence),
            step.why,
        ]
        for step in reversed(history.steps)
    ]
    explained = (
        "A promise is alpha + stability + existence. The window is the step whose rows of the new "
        "system decided the share. A key counts in the step in which a system first answered it."
    )
    return join(element("p", explained), data_table("All steps, latest first", headings, rows))


def alarms_and_acts(history: ReleaseHistory) -> Markup:
    """The alarms, and what people did to the release, with their reasons."""
    if history.alarms:
        alarms = alarms_table(history.alarms, "Step")
    else:
        levels = " or ".join(
            f"{name} above {format_number(limit.alarm_risk)}"
            for name, limit in history.limits.items()
        )
        text = (
            "None so far. A monitor raises an alarm if the losses of the new system show that what "
            f"is served has a risk of {levels}; another one if losses stop arriving."
        )
        alarms = element("p", text)
    if not history.audit:
        return join(alarms, element("p", "Nobody has halted or resumed the release."))
    acts = data_table(
        "What people did, latest first",
        ["Act", "Done", "By", "What", "Why"],
        [
            [each.number, format_time(each.done), each.actor, each.act, each.reason]
            for each in reversed(history.audit)
        ],
    )
    return join(alarms, element("h3", "What people did"), acts)


def _promise(step: StepRecord, name: str) -> Content:
    """The promise and its terms; lines break between these, not within."""
    if step.share == 0:
        return "none"
    terms = step.calibration.guardrails[name]
    parts = [
        f"≤ {format_number(terms.promise)}",
        f"= {format_number(terms.alpha)}",
        f"+ {format_term(terms.stability)}",
        f"+ {format_term(terms.existence)}",
    ]
    if step.stopped_by is not None:
        parts.append(f"until alarm {step.stopped_by}")
    spans = [element("span", part, class_="unbroken") for part in parts]
    return Markup(" ".join(spans))
