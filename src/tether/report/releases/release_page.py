"""The parts of the page of a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.report.html_elements import Markup, element, join
from tether.report.number_format import format_count, format_interval, format_number, format_time
from tether.report.page_frame import PageParts
from tether.report.page_opening import opening_block
from tether.report.releases.losses_over_steps import losses_chart
from tether.report.releases.release_assumptions import release_assumptions
from tether.report.releases.release_sentences import (
    format_share,
    new_since,
    of_guardrail,
    release_promise,
    release_state,
)
from tether.report.releases.release_tables import alarms_and_acts, steps_table
from tether.report.releases.share_over_steps import share_chart
from tether.report.text_sections import assumption_list

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import ReleaseHistory, StepRecord


def release_parts(history: ReleaseHistory) -> PageParts:
    """Everything that the page of a release shows."""
    state = release_state(history)
    sections = [
        ("share", "How many keys does the new system answer?", share_chart(history).figure()),
        ("losses", "What do the two systems cost?", _losses(history)),
        ("steps", "All steps", steps_table(history)),
        ("assumptions", "Assumptions", assumption_list(release_assumptions(history))),
        ("alarms", "Alarms and interventions", alarms_and_acts(history)),
    ]
    figures = _key_figures(history)
    return PageParts(
        history.store,
        state,
        opening_block(state, state.sentence, release_promise(history), figures),
        sections,
        "Settings of this release",
        _settings(history),
    )


def _losses(history: ReleaseHistory) -> Markup:
    several = len(history.limits) > 1
    charts = [losses_chart(history, name, "half" if several else "full") for name in history.limits]
    shown = [chart.figure() for chart in charts if chart.tips]
    if not shown:
        return element("p", "No losses have arrived yet.")
    return element("div", shown, class_="halves") if several else join(*shown)


def _key_figures(history: ReleaseHistory) -> list[tuple[str, str, str]]:
    """The figures that come first: a term, a number, and what to compare it with."""
    number = history.steps[-1].number
    figures = [("Share of the new system", format_share(history.share), f"step {number}")]
    for name, limit in history.limits.items():
        loss = name if len(history.limits) > 1 else "Mean loss"
        of, bound = of_guardrail(history, name), f"losses lie between 0 and {limit.bound:g}"
        is_promise = history.target == "promise"
        term = f"Promise to keep{of}" if is_promise else f"Tolerated risk{of}, alpha"
        figures.append((term, format_number(limit.alpha), bound))
        with_loss = [step for step in history.steps if name in step.new.losses]
        if with_loss:
            figures.append((f"{loss}, new system", *_new_mean(history, name, with_loss[-1])))
        if name in history.old_losses:
            old = history.old_losses[name]
            compared = f"{format_interval(old)} in all steps"
            figures.append((f"{loss}, old system", format_number(old.mean), compared))
    new_keys = sum(step.new.rows for step in history.steps)
    old_keys = sum(step.old.rows for step in history.steps)
    compared = f"{new_keys:,} by the new system, {old_keys:,} by the old one"
    figures.append(("Keys answered", f"{new_keys + old_keys:,}", compared))
    if history.unstored:
        compared = "while the store was unavailable, by the old system; they count nowhere"
        figures.append(("Answers without the store", f"{history.unstored:,}", compared))
    return figures


def _new_mean(history: ReleaseHistory, name: str, last: StepRecord) -> tuple[str, str]:
    """The mean of the new system in this ramp, beside that of the last step that has a loss."""
    found, where = last.new.losses[name], f"in step {last.number}"
    since = new_since(history, name)
    if since is None:  # an alarm was cleared, and the ramp that began then has no loss yet
        return format_number(found.mean), f"{format_interval(found)} {where}"
    pooled = history.new_losses[name]
    over = "in all steps" if since == 1 else f"since step {since}"
    return (
        format_number(pooled.mean),
        f"{format_interval(pooled)} {over}; {format_number(found.mean)} {where}",
    )


def _settings(history: ReleaseHistory) -> list[tuple[str, str]]:
    sure, later = "in expectation", format_count(history.wait, "step")
    if history.confidence is not None:
        sure = f"with confidence {history.confidence:g}, at all steps"
    return [
        ("Store", history.store),
        ("Created", format_time(history.created)),
        ("Promise", sure),
        ("A step ends", "by hand" if history.length == "by hand" else f"after {history.length}"),
        (
            "Rows of a step are used",
            f"{later} later" if history.wait else "at its end",
        ),
        *(
            (f"Alarm level{of_guardrail(history, name)}", format_number(limit.alarm_risk))
            for name, limit in history.limits.items()
        ),
        ("Steps", f"{len(history.steps):,}"),
    ]
