"""What `tether status` shows of a release: its steps, shares and losses."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table

from tether._core import records
from tether._core.redact import redact_url
from tether._core.visible_text import visible
from tether.cli.status_text import estimate_text, limits_text, plain_text

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import ReleaseHistory, StepRecord


def rendered_release(history: ReleaseHistory) -> list[RenderableType]:
    """The title and the table of steps."""
    sure = "in expectation"
    if history.confidence is not None:
        sure = f"with confidence {history.confidence:g}"
    waits = f", used {history.wait} steps later" if history.wait else ""
    title = (
        f"{redact_url(history.store)}: release, {history.target} {limits_text(history.limits)}, "
        f"{sure}, steps: {history.length}{waits}; the new system has {history.share:.3%}"
    )
    return [plain_text(title), _table(history)]


def plain_release(history: ReleaseHistory) -> dict[str, Any]:
    """As JSON."""
    plain = asdict(history) | {"store": redact_url(history.store), "kind": "release"}
    for row, step in zip(plain["steps"], history.steps, strict=True):
        row |= {"share": step.share, "why": step.why, "calibration": step.calibration.to_dict()}
    encoded: dict[str, Any] = records.encode(plain)
    return encoded


def _table(history: ReleaseHistory) -> Table:
    headings = ["step", "share", "promise", "old", "new"]
    for name in history.limits:
        headings += [f"{name}, old", f"{name}, new", "between"]
    table = Table(*map(visible, [*headings, "why"]), box=None, pad_edge=False)
    for step in history.steps:
        table.add_row(*map(plain_text, _cells(history, step)))
    return table


def _cells(history: ReleaseHistory, step: StepRecord) -> list[str]:
    promises = step.calibration.promises
    stated = ", ".join(f"{promises[name]:.3g}" for name in history.limits)
    cells = [str(step.number), f"{step.share:.3%}", "none" if step.calibration.reason else stated]
    cells += [f"{step.old.rows:,}", f"{step.new.rows:,}"]
    for name in history.limits:
        cells += [estimate_text(step.old.losses.get(name))[0]]
        cells += estimate_text(step.new.losses.get(name))
    return [*cells, step.why]
