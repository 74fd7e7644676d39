"""`tether status`, `report`, `resume`, `export` and `import`: a store from the command line."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tether._core import records
from tether.cli.terminal import ALARM, told

if TYPE_CHECKING:
    from tether.rounds.history import Estimate, History, RoundRecord

StoreName = Annotated[str, typer.Argument(help="A SQLite file, or a database URL.")]


@told
def status(
    store: StoreName,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until interrupted.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between looks, with --follow.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show the rounds of a run, its losses and its alarms; exit code 4 while an alarm stands."""
    from tether.rounds import read_history

    found = read_history(store)
    if as_json:
        print(json.dumps(_plain(found), indent=2))
    elif follow:
        _follow(store, found, every)
    else:
        Console(highlight=False).print(_shown(found))
    if found.alarm is not None:
        raise typer.Exit(ALARM)


@told
def report(
    store: StoreName,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path("report.html"),
) -> None:
    """Write everything about a run into one HTML file that needs no network."""
    from tether.report import write
    from tether.rounds import read_history

    write(read_history(store), out)
    _say(f"Report: {out}")


@told
def resume(
    store: StoreName,
    reason: Annotated[str, typer.Option(help="Why the optimized policy may act again.")],
) -> None:
    """Clear the alarm that stands; the reason is kept."""
    from tether.rounds import resume as clear

    clear(store, reason)
    _say("The alarm is cleared. The monitors begin anew with the next action.")


@told
def export_store(
    store: StoreName,
    out: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
) -> None:
    """Write a whole run as one Parquet table, from which every round can be audited."""
    from tether.rounds import export_run

    if out.suffix != ".parquet":
        raise ValueError(f"the file must end in .parquet, got {out}")
    export_run(store, out)
    _say(f"Exported: {out}")


@told
def import_store(
    file: Annotated[Path, typer.Argument(help="What `tether export` wrote.")],
    store: StoreName,
) -> None:
    """Fill a new store from an exported table."""
    from tether.rounds import import_run

    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    import_run(file, store)
    _say(f"Imported into {store}")


def _follow(store: str, found: History, every: float) -> None:
    from tether.rounds import read_history

    with Live(_shown(found), console=Console(highlight=False), auto_refresh=False) as live:
        try:
            while True:
                time.sleep(every)
                live.update(_shown(read_history(store)), refresh=True)
        except KeyboardInterrupt:
            pass


def _shown(found: History) -> RenderableType:
    title = (
        f"{found.store}: alpha {found.alpha:g} of at most {found.bound:g}, family {found.family}, "
        f"safe policy {found.safe!r}"
    )
    parts: list[RenderableType] = [Text(title)]
    if found.rounds:
        parts += [_rounds(found), *_progress(found.rounds[-1])]
    else:
        parts.append(Text("No round has begun yet."))
    for alarm in found.alarms:
        standing = alarm.cleared is None
        state = "stands" if standing else f"cleared {alarm.cleared}: {alarm.reason}"
        line = f"alarm {alarm.number} ({alarm.monitor}), round {alarm.round}, {alarm.raised}: "
        parts.append(Text(f"{line}{alarm.message}; {state}", "bold red" if standing else "dim"))
    if found.alarm is not None:
        parts.append(Text("The safe policy serves until `tether resume … --reason …`."))
    return Group(*parts)


def _rounds(found: History) -> Table:
    heads = ("round", "policy", "beta", "actions", "losses", "mean loss", "between", "reward")
    table = Table(*heads, box=None, pad_edge=False)
    for each in found.rounds:
        over = each.loss is not None and each.loss.lower > found.alpha
        table.add_row(
            str(each.number),
            each.policy or "safe",
            f"{each.beta:.4g}",
            f"{each.rows:,}",
            f"{each.observed:,}",
            *_estimate(each.loss),
            "" if each.reward is None else f"{each.reward.mean:.4g}",
            style="red" if over else None,
        )
    return table


def _progress(each: RoundRecord) -> list[RenderableType]:
    expected = each.rows - each.withdrawn
    line = f"round {each.number}: {each.observed:,} of {expected:,} losses have arrived"
    parts: list[RenderableType] = [Text(line)]
    if expected:
        bar = Table.grid()
        bar.add_row(ProgressBar(total=expected, completed=each.observed, width=60))
        parts.append(bar)
    if each.note:
        parts.append(Text(each.note, "yellow"))
    if each.fallback_rows:
        line = (
            f"the safe policy took {each.fallback_rows:,} of {each.rows:,} actions after a failure"
        )
        parts.append(Text(f"{line}, at last: {each.failure}", "yellow"))
    return parts


def _estimate(found: Estimate | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    return f"{found.mean:.4g}", f"{found.lower:.3g} – {found.upper:.3g}"


def _plain(found: History) -> dict[str, Any]:
    plain = asdict(found)
    for row, each in zip(plain["rounds"], found.rounds, strict=True):
        row["calibration"] = None if each.calibration is None else each.calibration.to_dict()
        row |= {"beta": each.beta, "pending": each.pending}
    encoded: dict[str, Any] = records.encode(plain)
    return encoded


def _say(line: str) -> None:
    Console(highlight=False, markup=False, soft_wrap=True).print(line)
