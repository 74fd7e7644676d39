"""What `tether status` shows of a release: its steps, shares and losses."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table

from tether._core import records
from tether._core.redact import redact_url
from tether._core.visible_text import visible
from tether.cli.status_text import INTERVAL_HEADING, estimate_text, limits_text, plain_text

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import ReleaseHistory, StepRecord

TOLD = ("stalled", "missing", "inverted", "exceeded", "closed", "warnings")
"""What is told of a release in words, each empty if there is nothing to say; and all of it."""


def rendered_release(history: ReleaseHistory) -> list[RenderableType]:
    """The title, the table of steps, what looks wrong, and the losses of each guardrail."""
    from tether.report.releases.release_sentences import release_notes, unstored_note

    sure = "in expectation"
    if history.confidence is not None:
        sure = f"with confidence {history.confidence:g}"
    later = "a step" if history.wait == 1 else f"{history.wait} steps"
    waits = f", used {later} later" if history.wait else ""
    title = (
        f"{redact_url(history.store)}: release, {history.target} {limits_text(history.limits)}, "
        f"{sure}, steps: {history.length}{waits}; the new system has {history.share:.3%}"
    )
    lines: list[RenderableType] = [plain_text(title), _steps(history)]
    lines += [plain_text(note, "yellow") for note in release_notes(history)]
    if note := unstored_note(history):
        lines.append(plain_text(note))
    for name in history.limits:
        lines += [plain_text(""), _losses(history, name)]
    return lines


def plain_release(history: ReleaseHistory) -> dict[str, Any]:
    """As JSON."""
    plain = asdict(history) | {"store": redact_url(history.store), "kind": "release"}
    plain |= {name: getattr(history, name) for name in TOLD}
    plain["limits"] = {
        name: {"tolerated": limit.pop("alpha"), **limit} for name, limit in plain["limits"].items()
    }
    plain["alarms"] = [alarm | {"step": alarm.pop("round")} for alarm in plain["alarms"]]
    for row, step in zip(plain["steps"], history.steps, strict=True):
        row |= {"share": step.share, "why": step.why, "calibration": step.calibration.to_dict()}
    encoded: dict[str, Any] = records.encode(plain)
    return encoded


def _steps(history: ReleaseHistory) -> Table:
    table = _table("step", "share", "old", "new", "why")
    for step in history.steps:
        rows = f"{step.old.rows:,}", f"{step.new.rows:,}"
        table.add_row(*map(plain_text, (str(step.number), f"{step.share:.3%}", *rows, step.why)))
    return table


def _losses(history: ReleaseHistory, name: str) -> Table:
    """The mean losses of both systems, and the interval of the new one's."""
    table = _table("step", "promise", f"{name}, old", f"{name}, new", INTERVAL_HEADING)
    for step in history.steps:
        cells = [str(step.number), _promise(step, name)]
        cells += [estimate_text(step.old.losses.get(name))[0]]
        cells += estimate_text(step.new.losses.get(name))
        table.add_row(*map(plain_text, cells))
    return table


def _promise(step: StepRecord, name: str) -> str:
    """What is promised in a step; from an alarm on nothing is."""
    if step.share == 0:
        return "none"
    until = "" if step.stopped_by is None else f" until alarm {step.stopped_by}"
    return f"{step.promises[name]:.3g}{until}"


def _table(*headings: str) -> Table:
    return Table(*map(visible, headings), box=None, pad_edge=False)
