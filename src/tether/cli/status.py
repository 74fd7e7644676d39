"""`tether status`: the rounds, losses and alarms of a run, or the steps of a release."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tether._core import records
from tether._core.redact import redact_url
from tether._core.visible_text import visible
from tether.cli.ramp_status import plain_ramp_round, ramp_family_text, ramp_table
from tether.cli.release_status import plain_release, rendered_release
from tether.cli.status_text import (
    INTERVAL_HEADING,
    estimate_text,
    limits_text,
    number_text,
    plain_text,
)
from tether.cli.terminal import ALARM_STANDS, JsonOption, StoreName, report_errors

if TYPE_CHECKING:
    from tether.rounds.history import History, RoundRecord
    from tether.rounds.releases.release_history import ReleaseHistory


IntervalOption = Annotated[
    float, typer.Option(min=0.01, max=86_400, help="Seconds between updates, with --follow.")
]
FollowOption = Annotated[bool, typer.Option("--follow", help="Keep updating until interrupted.")]


@report_errors
def status(
    store: StoreName,
    follow: FollowOption = False,
    every: IntervalOption = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Show the rounds, or the steps of a release, with losses and alarms.

    Exit code 4 while an alarm stands.
    """
    from tether.rounds.any_history import read_any_history

    if math.isnan(every):
        raise ValueError(f"--every must be a number of seconds, got {every}")
    history = read_any_history(store)
    if as_json:
        print(json.dumps(_plain(history), indent=2))
    elif follow:
        _follow(store, history, every)
    else:
        Console(highlight=False).print(_rendered(history))
    if history.alarm is not None:
        raise typer.Exit(ALARM_STANDS)


def _follow(store: str, history: History | ReleaseHistory, interval: float) -> None:
    from tether.rounds.any_history import read_any_history

    with Live(_rendered(history), console=Console(highlight=False), auto_refresh=False) as live:
        try:
            while True:
                sleep(interval)
                live.update(_rendered(read_any_history(store)), refresh=True)
        except KeyboardInterrupt:
            pass


def _rendered(history: History | ReleaseHistory) -> RenderableType:
    from tether.rounds import ReleaseHistory

    if isinstance(history, ReleaseHistory):
        lines, what, who = rendered_release(history), "step", "old system"
    else:
        lines, what, who = _rendered_rounds(history), "round", "safe policy"
    for alarm in history.alarms:
        stands = alarm.cleared is None
        state = "stands"
        if not stands:
            state = f"cleared {alarm.cleared} by {alarm.actor}"
        line = f"alarm {alarm.number} ({alarm.monitor}), {what} {alarm.round}, {alarm.raised}: "
        lines.append(plain_text(f"{line}{alarm.message}; {state}", "bold red" if stands else "dim"))
    if history.alarm is not None:
        lines.append(Text(f"The {who} acts until `tether resume … --reason …`."))
    for each in history.audit:
        lines.append(plain_text(f"{each.act} by {each.actor}, {each.done}: {each.reason}", "dim"))
    return Group(*lines)


def _rendered_rounds(history: History) -> list[RenderableType]:
    candidates = history.shortlist
    shortlist = "" if candidates is None else f", shortlists of {candidates} candidates"
    sure = "" if history.confidence is None else f" with confidence {history.confidence:g}"
    family = ramp_family_text(history) if history.is_ramp else history.family
    title = (
        f"{redact_url(history.store)}: {history.target} {limits_text(history.limits)}{sure}, "
        f"family {family}, safe policy {history.safe!r}{shortlist}"
    )
    lines: list[RenderableType] = [plain_text(title)]
    if history.rounds:
        several = len(history.limits) > 1
        table = ramp_table(history) if history.is_ramp else _round_table(history)
        lines.append(table)
        lines += _progress(history.rounds[-1], several=several)
    else:
        lines.append(Text("No round has begun yet."))
    return lines


def _round_table(history: History) -> Table:
    several = len(history.limits) > 1
    means = [f"mean {name}" if several else "mean loss" for name in history.limits]
    headings = ["round", "policy", "beta", "actions", "losses"]
    for mean in means:
        headings += [mean, INTERVAL_HEADING]
    table = Table(*map(visible, [*headings, "reward"]), box=None, pad_edge=False)
    for record in history.rounds:
        above_alpha = any(
            loss.lower > history.limits[name].alpha for name, loss in record.losses.items()
        )
        table.add_row(
            *map(
                plain_text,
                (
                    str(record.number),
                    (record.policy or "safe") + (" (retired)" if record.retired else ""),
                    number_text(record.beta),
                    f"{record.rows:,}",
                    f"{record.observed:,}",
                    *(
                        text
                        for name in history.limits
                        for text in estimate_text(record.losses.get(name))
                    ),
                    "" if record.reward is None else number_text(record.reward.mean),
                ),
            ),
            style="red" if above_alpha else None,
        )
    return table


def _progress(record: RoundRecord, *, several: bool) -> list[RenderableType]:
    expected = record.rows - record.withdrawn
    line = f"round {record.number}: {record.observed:,} of {expected:,} losses have arrived"
    line += ", counting the scarcest loss" if several else ""
    lines: list[RenderableType] = [Text(line)]
    if expected:
        bar = Table.grid()
        bar.add_row(ProgressBar(total=expected, completed=record.observed, width=60))
        lines.append(bar)
    if record.note:
        lines.append(plain_text(record.note, "yellow"))
    if record.fallback_rows:
        line = (
            f"the safe policy took {record.fallback_rows:,} of {record.rows:,} actions after a "
            f"failure, most recently: {record.failure}"
        )
        lines.append(plain_text(line, "yellow"))
    return lines


def _plain(history: History | ReleaseHistory) -> dict[str, Any]:
    from tether.rounds import ReleaseHistory

    if isinstance(history, ReleaseHistory):
        return plain_release(history)
    plain = asdict(history) | {"store": redact_url(history.store)}
    for row, record in zip(plain["rounds"], history.rounds, strict=True):
        row["calibration"] = None if record.calibration is None else record.calibration.to_dict()
        row |= {"beta": record.beta, "pending": record.pending}
        if history.is_ramp:
            row |= plain_ramp_round(record)
            del row["beta"], row["calibration"]
    encoded: dict[str, Any] = records.encode(plain)
    return encoded
