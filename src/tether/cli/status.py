"""`tether status`: the rounds, losses and alarms of a run, or the steps of a release."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from time import sleep
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tether._core import records
from tether._core.files import redact_url
from tether._core.words import visible
from tether.cli.terminal import ALARM_STANDS, JsonOption, StoreName, report_errors

INTERVAL = "95% interval"
"""What the intervals of mean losses are: confidence sequences, valid at all times."""
TOLD = ("stalled", "missing", "inverted", "exceeded", "closed", "warnings")
"""What is told of a release in words, each empty if there is nothing to say; and all of it."""

FollowOption = Annotated[bool, typer.Option("--follow", help="Keep updating until interrupted.")]
EveryOption = Annotated[
    float, typer.Option(min=0.01, max=86_400, help="Seconds between updates, with --follow.")
]


@report_errors
def status(
    store: StoreName,
    follow: FollowOption = False,
    every: EveryOption = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Show the rounds, or the steps of a release, with losses and alarms.

    Exit code 4 while an alarm stands.
    """
    from tether.rounds.any_history import read_any_history

    if math.isnan(every):
        raise ValueError(f"--every must be a number of seconds, got {every}")
    history: Any = read_any_history(store)
    if as_json:
        print(json.dumps(plain_history(history), indent=2))
    elif follow:
        with Live(_shown(history), console=Console(highlight=False), auto_refresh=False) as live:
            try:
                while True:
                    sleep(every)
                    live.update(_shown(read_any_history(store)), refresh=True)
            except KeyboardInterrupt:
                pass
    else:
        Console(highlight=False).print(_shown(history))
    if history.alarm is not None:
        raise typer.Exit(ALARM_STANDS)


def plain_history(history: Any) -> dict[str, Any]:
    """A history as values of JSON."""
    plain = asdict(history) | {"store": redact_url(history.store)}
    if hasattr(history, "steps"):
        plain |= {"kind": "release"} | {name: getattr(history, name) for name in TOLD}
        plain["limits"] = {
            name: {"tolerated": each.pop("alpha"), **each} for name, each in plain["limits"].items()
        }
        plain["alarms"] = [alarm | {"step": alarm.pop("round")} for alarm in plain["alarms"]]
        for row, step in zip(plain["steps"], history.steps, strict=True):
            row |= {"share": step.share, "why": step.why, "calibration": step.calibration.to_dict()}
    else:
        for row, record in zip(plain["rounds"], history.rounds, strict=True):
            found, share = record.calibration, record.ramp_share
            row |= {"calibration": None if found is None else found.to_dict()}
            row |= {"beta": record.beta, "pending": record.pending}
            if history.is_ramp:
                row |= {"share": record.share, "why": record.why}
                row["ramp_share"] = None if share is None else share.to_dict()
                del row["beta"], row["calibration"]
    encoded: dict[str, Any] = records.encode(plain)
    return encoded


def _shown(history: Any) -> RenderableType:
    is_release = hasattr(history, "steps")
    lines = _release(history) if is_release else _rounds(history)
    what, who = ("step", "old system") if is_release else ("round", "safe policy")
    for alarm in history.alarms:
        stands = alarm.cleared is None
        state = "stands" if stands else f"cleared {alarm.cleared} by {alarm.actor}"
        line = f"alarm {alarm.number} ({alarm.monitor}), {what} {alarm.round}, {alarm.raised}: "
        lines.append(_text(f"{line}{alarm.message}; {state}", "bold red" if stands else "dim"))
    if history.alarm is not None:
        lines.append(Text(f"The {who} acts until `tether resume … --reason …`."))
    for each in history.audit:
        lines.append(_text(f"{each.act} by {each.actor}, {each.done}: {each.reason}", "dim"))
    return Group(*lines)


def _rounds(history: Any) -> list[RenderableType]:
    family = history.family
    if history.is_ramp:
        length = history.actions_per_step
        family = f"ramp, steps: {'by hand' if length is None else f'{length:,} actions'}"
    candidates = history.shortlist
    lines: list[RenderableType] = [
        _text(
            f"{redact_url(history.store)}: {history.target} {_limits(history)}{_sure(history)}, "
            f"family {family}, safe policy {history.safe!r}"
            + ("" if candidates is None else f", shortlists of {candidates} candidates")
        )
    ]
    if not history.rounds:
        return [*lines, Text("No round has begun yet.")]
    lines.append(_round_table(history))
    last = history.rounds[-1]
    line = f"round {last.number}: {last.observed:,} of {last.rows - last.withdrawn:,} losses have"
    scarcest = ", counting the scarcest loss" if len(history.limits) > 1 else ""
    lines.append(Text(f"{line} arrived{scarcest}"))
    if last.note:
        lines.append(_text(last.note, "yellow"))
    if last.fallback_rows:
        line = f"the safe policy took {last.fallback_rows:,} of {last.rows:,} actions after a"
        lines.append(_text(f"{line} failure, most recently: {last.failure}", "yellow"))
    return lines


def _round_table(history: Any) -> Table:
    """The rounds: beta, or in a ramp the share and promise, and also losses of the policy's own."""
    ramp, several = history.is_ramp, len(history.limits) > 1
    headings = ["round", "policy", *(("share", "promise") if ramp else ("beta",)), "actions"]
    headings += [*(("of the policy",) if ramp else ()), "losses"]
    for name in history.limits:
        headings += [f"mean {name}" if several else "mean loss", INTERVAL]
        headings += ["of the policy"] if ramp else []
    table = _table(*headings, "why" if ramp else "reward")
    for each in history.rounds:
        cells = [str(each.number), (each.policy or "safe") + " (retired)" * bool(each.retired)]
        if ramp:
            share = each.ramp_share
            stated = {} if share is None else share.promises
            promise = ", ".join(f"{stated[name]:.3g}" for name in history.limits if stated)
            cells += [
                f"{each.share:.3%}",
                "none" if share is not None and share.reason else promise,
            ]
        else:
            cells.append(_number(each.beta))
        cells += [f"{each.rows:,}", *([f"{each.policy_rows:,}"] if ramp else [])]
        cells.append(f"{each.observed:,}")
        for name in history.limits:
            cells += _estimate(each.losses.get(name))
            cells += [_estimate(each.policy_losses.get(name))[0]] if ramp else []
        reward = "" if each.reward is None else _number(each.reward.mean)
        cells.append(each.why if ramp else reward)
        above = any(loss.lower > history.limits[n].alpha for n, loss in each.losses.items())
        table.add_row(*map(_text, cells), style="red" if above else None)
    return table


def _release(history: Any) -> list[RenderableType]:
    """The title, the table of steps, what looks wrong, and the losses of each guardrail."""
    from tether.report.releases.release_sentences import release_notes, unstored_note

    later = "a step" if history.wait == 1 else f"{history.wait} steps"
    waits = f", used {later} later" if history.wait else ""
    title = (
        f"{redact_url(history.store)}: release, {history.target} {_limits(history)},"
        f"{_sure(history) or ' in expectation'}, steps: {history.length}{waits}; the new system "
        f"has {history.share:.3%}"
    )
    steps = _table("step", "share", "old", "new", "why")
    for step in history.steps:
        rows = f"{step.old.rows:,}", f"{step.new.rows:,}"
        steps.add_row(*map(_text, (str(step.number), f"{step.share:.3%}", *rows, step.why)))
    lines: list[RenderableType] = [_text(title), steps]
    lines += [_text(note, "yellow") for note in release_notes(history)]
    if note := unstored_note(history):
        lines.append(_text(note))
    for name in history.limits:
        table = _table("step", "promise", f"{name}, old", f"{name}, new", INTERVAL)
        for step in history.steps:
            until = "" if step.stopped_by is None else f" until alarm {step.stopped_by}"
            promise = "none" if step.share == 0 else f"{step.promises[name]:.3g}{until}"
            old, new = (_estimate(each.losses.get(name)) for each in (step.old, step.new))
            table.add_row(*map(_text, (str(step.number), promise, old[0], *new)))
        lines += [Text(""), table]
    return lines


def _limits(history: Any) -> str:
    """What is tolerated of each loss, out of what it can be at most."""
    return ", ".join(
        f"{name} {limit.alpha:g} (losses up to {limit.bound:g})"
        for name, limit in history.limits.items()
    )


def _sure(history: Any) -> str:
    return "" if history.confidence is None else f" with confidence {history.confidence:g}"


def _estimate(estimate: Any) -> tuple[str, str]:
    """A mean, and its interval; empty if there is none."""
    if estimate is None:
        return "", ""
    return _number(estimate.mean), f"{_number(estimate.lower, 3)} – {_number(estimate.upper, 3)}"


def _number(value: float, digits: int = 4) -> str:
    return "?" if math.isnan(value) else f"{value:.{digits}g}"


def _text(text: str, style: str = "") -> Text:
    """Text from a store as it is: no markup, and no control characters."""
    return Text(visible(text), style)


def _table(*headings: str) -> Table:
    return Table(*map(visible, headings), box=None, pad_edge=False)
