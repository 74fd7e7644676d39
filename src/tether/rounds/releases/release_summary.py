"""A release in words and as a table: what printing it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tether._core.columns import Columns
from tether._core.description import Description
from tether.rounds.history_summary import INTERVAL_NOTE, columns_of, estimate_cells

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import ReleaseHistory


def describe_release(history: ReleaseHistory) -> Description:
    """The share of the new system now, why, what is promised, and the steps so far."""
    step, alarm = history.steps[-1], history.alarm
    facts = [("promise", str(step.calibration)), ("why", step.why)]
    tone = "good" if step.calibration.useful else "caution"
    headline = f"step {step.number}: the new system answers {100 * history.share:.3g} % of the keys"
    if history.share == 0:
        headline = f"step {step.number}: the old system answers all keys"
        facts[0] = ("promise", "none applies: the new system answers no keys")
    warnings: tuple[str, ...] = ()
    if alarm is not None:
        headline, tone = f"{headline} since an alarm", "stop"
        warnings = (f"alarm of the {alarm.monitor} monitor: {alarm.message}",)
    else:
        warnings = tuple(each for each in (history.missing, history.stalled) if each)
    tolerated = "; ".join(
        f"{name}: {history.target} {each.alpha:g}, of losses up to {each.bound:g}"
        for name, each in history.limits.items()
    )
    facts += [
        ("tolerated", tolerated),
        ("steps", history.length),
        ("store", f"{history.store}, created {history.created}"),
    ]
    table = steps_columns(history)
    shown = Columns(
        {
            name: values
            for name, values in table.items()
            if name not in ("begun", "why") and not name.endswith(("_lower", "_upper"))
        }
    )
    return Description(
        headline, tone, tuple(facts), table=shown, warnings=warnings, notes=(INTERVAL_NOTE,)
    )


def steps_columns(history: ReleaseHistory) -> Columns:
    """One row per step; several guardrails have one column each."""
    rows: list[dict[str, Any]] = []
    for step in history.steps:
        promises = step.calibration.promises
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
