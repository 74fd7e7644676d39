"""A run and its rounds in words and as a table: what printing them shows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.words import Columns, Description
from tether.rounds.limits import ONLY_LOSS

if TYPE_CHECKING:
    from tether.rounds.history import Estimate, History, RoundRecord

INTERVAL_NOTE = "intervals of losses are 95 % confidence sequences, valid at all times"


def describe_round(record: RoundRecord) -> Description:
    """What serves, what is promised for it, and what has come of it so far."""
    facts = []
    if record.ramp_share is not None:
        facts.append(("promise", str(record.ramp_share)))
    elif record.calibration is not None:
        facts.append(("promise", record.calibration.statement))
    why = record.why
    if why:
        facts.append(("why" if record.ramp_share is not None else "note", why))
    facts.append(("begun", record.begun))
    if record.rows:
        facts.append(("actions", _actions_in_words(record)))
        facts.append(("losses", _losses_in_words(record)))
    facts += [
        (_named("mean loss", name), format_estimate(each)) for name, each in record.losses.items()
    ]
    if record.reward is not None:
        facts.append(("mean reward", format_estimate(record.reward)))
    warnings = []
    if record.failure:
        warnings.append(f"the policy failed: {record.failure}")
    if record.retired:
        warnings.append("its policy was lost: its rows are left out of later calibrations")
    if record.calibration is not None:
        warnings += [each for each in record.calibration.warnings if each not in why]
    return Description(
        f"round {record.number}: {_served(record)}",
        _tone(record),
        tuple(facts),
        warnings=tuple(warnings),
        notes=(INTERVAL_NOTE,) if record.losses else (),
    )


def describe_history(history: History) -> Description:
    """The state of a run, and its rounds."""
    headline = "no round has begun"
    tone = "caution"
    if history.rounds:
        last = history.rounds[-1]
        headline, tone = f"round {last.number}: {_served(last)}", _tone(last)
    alarm = history.alarm
    if alarm is not None:
        headline = f"the safe policy serves since an alarm in round {alarm.round}: {alarm.message}"
        tone = "stop"
    tolerated = "; ".join(
        f"{name}: {history.target} {each.alpha:g}, of losses up to {each.bound:g}"
        for name, each in history.limits.items()
    )
    return Description(
        headline,
        tone,
        (
            ("tolerated", tolerated),
            ("safe policy", history.safe),
            ("store", f"{history.store}, created {history.created}"),
        ),
        table=_brief(rounds_columns(history.rounds, list(history.limits))),
    )


def rounds_columns(rounds: Iterable[RoundRecord], losses: Iterable[str] = ()) -> Columns:
    """One row per round; several losses have one column each."""
    listed = list(rounds)
    names = dict.fromkeys([*losses, *(name for record in listed for name in record.losses)])
    names = names or {ONLY_LOSS: None}
    rows: list[dict[str, Any]] = []
    for record in listed:
        promises = record.promises
        row: dict[str, Any] = {
            "round": record.number,
            "policy": record.policy or "",
            "begun": record.begun,
            "beta": record.beta if record.ramp_share is None else math.nan,
            "share": math.nan if record.ramp_share is None else record.share,
            "useful": _tone(record) == "good",
            "actions": record.rows,
            "safe_actions": record.safe_rows,
            "calibration_rows": record.calibration_rows,
            "observed": record.observed,
            "pending": record.pending,
        }
        for name in names:
            of = "" if len(names) == 1 else f"[{name}]"
            row[f"promise{of}"] = promises.get(name, math.nan)
            row |= estimate_cells(f"loss{of}", record.losses.get(name))
        rows.append(row | estimate_cells("reward", record.reward))
    return columns_of(rows)


def columns_of(rows: list[dict[str, Any]]) -> Columns:
    """Columns from rows with the same keys."""
    if not rows:
        return Columns()
    return Columns({name: np.array([row[name] for row in rows]) for name in rows[0]})


def estimate_cells(name: str, estimate: Estimate | None) -> dict[str, float]:
    """A mean with its interval, as cells of a row; NaN before the first value."""
    if estimate is None:
        return {name: math.nan, f"{name}_lower": math.nan, f"{name}_upper": math.nan}
    return {
        name: estimate.mean,
        f"{name}_lower": estimate.lower,
        f"{name}_upper": estimate.upper,
    }


def format_estimate(estimate: Estimate) -> str:
    """A mean with its interval and the number of values, in words."""
    interval = f"{estimate.lower:.4g} to {estimate.upper:.4g}"
    return f"{estimate.mean:.4g} ({interval}) of {estimate.count:,} values"


def _brief(table: Columns) -> Columns | None:
    """The columns that fit beside each other."""
    left_out = ("begun", "calibration_rows", "safe_actions", "observed")
    shown = {
        name: values
        for name, values in table.items()
        if name not in left_out
        and not name.endswith(("_lower", "_upper"))
        and not (values.dtype.kind == "f" and np.isnan(values).all())
    }
    return Columns(shown) if shown else None


def _tone(record: RoundRecord) -> str:
    if record.over:
        return "caution"
    found = record.ramp_share or record.calibration
    if found is None:
        return "stop" if record.policy is not None else "caution"
    if found.useful:
        return "good"
    passes = record.share > 0 if record.ramp_share is not None else record.beta > 0
    return "caution" if passes else "stop"


def _served(record: RoundRecord) -> str:
    if record.over:
        return record.note
    if record.ramp_share is not None and record.share > 0:
        return f"{record.policy} takes a share of {record.share:.4g} of the actions"
    if record.calibration is not None and record.calibration.exists:
        return f"{record.policy} is served with beta = {record.beta:.4g}"
    if record.policy is None:
        return "the safe policy serves, no other policy was given"
    return f"the safe policy serves instead of {record.policy}"


def _named(word: str, name: str) -> str:
    return word if name == ONLY_LOSS else f"{word}, {name}"


def _actions_in_words(record: RoundRecord) -> str:
    text = f"{record.rows:,}, {record.calibration_rows:,} of them set apart for calibration"
    if record.safe_rows:
        text += f"; {record.safe_rows:,} by the safe policy"
    if record.fallback_rows:
        text += f", {record.fallback_rows:,} of these because the other policy was unavailable"
    return text


def _losses_in_words(record: RoundRecord) -> str:
    text = f"{record.observed:,} observed, {record.pending:,} pending"
    return f"{text}, {record.withdrawn:,} withdrawn" if record.withdrawn else text
