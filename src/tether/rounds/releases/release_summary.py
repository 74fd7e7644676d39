"""A release in words and as a table: what printing it shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tether._core.words import Columns, Description
from tether.rounds.history_summary import columns_of, estimate_cells

if TYPE_CHECKING:
    from tether.release.ramp_result import RampShare
    from tether.rounds.releases.release_history import ReleaseHistory


def describe_release(history: ReleaseHistory) -> Description:
    """The share of the new system now, why, what is promised, and the steps so far."""
    step, alarm = history.steps[-1], history.alarm
    facts = [("promise", _promised(step.calibration)), ("why", step.why)]
    tone = "good" if step.calibration.useful else "caution"
    headline = f"step {step.number}: the new system answers {100 * history.share:.3g} % of the keys"
    if history.share == 0:
        headline = f"step {step.number}: the old system answers all keys"
        facts[0] = ("promise", "none applies: the new system answers no keys")
    warnings = history.warnings
    if alarm is not None:
        headline, tone = f"{headline} since an alarm", "stop"
        warnings = (f"alarm of the {alarm.monitor} monitor: {alarm.message}", *warnings)
    tolerated = "; ".join(
        f"{name}: {history.target} {each.alpha:g}, of losses up to {each.bound:g}"
        for name, each in history.limits.items()
    )
    facts += [
        ("tolerated", tolerated),
        ("steps", history.length),
        ("store", f"{history.store}, created {history.created}"),
    ]
    return Description(
        headline,
        tone,
        tuple(facts),
        table=_shown_steps(history),
        warnings=warnings,
        notes=("losses are means; to_frame() has their 95 % confidence sequences",),
    )


def _promised(found: RampShare) -> str:
    """What is promised of each guardrail, and in which sense."""
    kind = "in expectation"
    if found.confidence is not None:
        kind = f"with probability {found.confidence:g} at all steps"
    stated = ", ".join(f"{name} ≤ {value:.3g}" for name, value in found.promises.items())
    return f"{stated}, {kind}"


def _shown_steps(history: ReleaseHistory) -> Columns:
    """One row per step and guardrail, narrow enough for a page or a terminal."""
    rows: list[dict[str, Any]] = []
    for step in history.steps:
        for name, promise in step.promises.items():
            row: dict[str, Any] = {
                "step": step.number,
                "share": step.share,
                "new keys": step.new.rows,
                "old keys": step.old.rows,
                "guardrail": name,
                "promise": promise,
                "new loss": getattr(step.new.losses.get(name), "mean", math.nan),
                "old loss": getattr(step.old.losses.get(name), "mean", math.nan),
            }
            rows.append(row)
    shown = columns_of(rows)
    if len(history.limits) == 1:
        del shown["guardrail"]
    return shown


def steps_columns(history: ReleaseHistory) -> Columns:
    """One row per step; several guardrails have one column each."""
    rows: list[dict[str, Any]] = []
    for step in history.steps:
        promises = step.promises
        row: dict[str, Any] = {
            "step": step.number,
            "begun": step.begun,
            "share": step.share,
            "new_keys": step.new.rows,
            "old_keys": step.old.rows,
        }
        for name in history.limits:
            of = "" if len(history.limits) == 1 else f"[{name}]"
            row[f"promise{of}"] = promises[name]
            row |= estimate_cells(f"new_loss{of}", step.new.losses.get(name))
            row |= estimate_cells(f"old_loss{of}", step.old.losses.get(name))
        rows.append(row | {"why": step.why})
    return columns_of(rows)
