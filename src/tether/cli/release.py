"""`tether release`: begin a ramp from an old system to a new one, and move it forward.

What exists is shown, halted, resumed and verified by the commands for every run.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tether._core.words import read_duration
from tether.cli.runs import ACT, SECONDS_TO_WAIT, told
from tether.cli.tables import open_dataset
from tether.cli.terminal import (
    ALARM_STANDS,
    NOTHING_PASSES,
    JsonOption,
    Options,
    StoreName,
    argument,
    command,
    named,
    named_numbers,
    number,
    print_line,
    refuse,
    show,
)

SIGNED: Options = {"signing_key": ACT["signing_key"]}
GUARDRAIL: Options = {
    "guardrail": (
        list[str],
        ...,
        "NAME=TOLERATED[:BOUND], a loss and its tolerated mean; NAME=+0.01 or NAME=+10% is by how "
        "much it may exceed the old system's at the same time; repeat.",
    ),
    "old_risk": (list[str], [], "NAME=RISK: a bound on the old system's loss; repeat."),
}
START: Options = {
    **GUARDRAIL,
    "old": (Path | None, None, "Losses of the old system: one row for each key."),
    "step": (str | None, None, "A step ends after so many keys, or a time such as 12h."),
    "outcome_deadline": (str | None, None, "Losses unknown by then count as the worst, e.g. 7d."),
    **SIGNED,
}
OBSERVE: Options = SIGNED | {
    "file": (Path | None, None, "A file: `key`, a column for each guardrail, optionally `system`."),
    "key": (str | None, None, "One key, instead of a file."),
    "loss": (list[str], [], "NAME=LOSS: a loss of this key; repeat for several."),
    "system": (str | None, None, "old or new. (default: the column, or who answered the key last)"),
    "keep_first": (bool, False, "Keep losses that are known, instead of refusing other values."),
}

app = typer.Typer(
    help="Ramp a new system up beside an old one; neither reports probabilities.",
    no_args_is_help=True,
)


PLAN: Options = GUARDRAIL | {
    "new_risk": (list[str], [], "NAME=RISK: what the new system loses. (default: as the old one)"),
    "keys_per_step": (int, 1000, "How many keys arrive in a step."),
    "seed": (int, 0, "The seed of the simulation."),
}


@app.command()
@command(given=PLAN)
def plan(given: Any, as_json: JsonOption = False) -> int:
    """Say what a release will take: steps and keys to full share, and what a bad version costs.

    Exit code 3 if most releases would not get there.
    """
    from tether.runs import plan_release

    limits = _guardrails(given["guardrail"])
    old, new = (named_numbers(f"--{e}-risk", given[f"{e}_risk"]) for e in ("old", "new"))
    if absent := [name for name in limits if name not in old]:
        raise ValueError(f"--old-risk NAME=RISK is needed for {', '.join(absent)}")
    rng = np.random.default_rng(given["seed"])
    found = plan_release(limits, old, given["keys_per_step"], rng, new=new)
    show(found, as_json=as_json)
    return 0 if np.isfinite(found.steps) else NOTHING_PASSES


@app.command()
@command(given=START)
def start(store: StoreName, given: Any, as_json: JsonOption = False) -> int:
    """Create a release and show its first share; one with the same settings continues.

    Exit code 3 if no share passes, because the old system alone does not.
    """
    from tether.runs import Release

    problems: list[str] = []
    limits = _guardrails(given["guardrail"])
    old: dict[str, Any] = {**named_numbers("--old-risk", given["old_risk"])}
    if given["old"] is not None and old:
        problems.append("--old and --old-risk state the same thing: give one of them")
    elif given["old"] is not None:
        absolute = [name for name, each in limits.items() if not each.is_relative]
        old = _old_losses(str(given["old"]), absolute, problems)
    options: dict[str, Any] = {"old": old or None, "key": given["signing_key"]}
    if (step := given["step"]) is not None:
        wanted = "a number of keys, or a time such as 12h"
        options["step"] = int(step) if step.isdecimal() else read_duration("--step", step, wanted)
    if (wait := given["outcome_deadline"]) is not None:
        wait = read_duration("--outcome-deadline", wait, "a time such as 12h")
        options["outcome_deadline"] = wait
    refuse(problems)
    with Release(store, limits, deadline=SECONDS_TO_WAIT, **options) as release:
        return _show_step(release, as_json=as_json)


@app.command()
@command(given=SIGNED | {"file": (Path | None, None, "A file with the keys as column `key`.")})
def assign(
    store: StoreName,
    given: Any,
    keys: Annotated[list[str] | None, argument("The keys: users, sessions, devices.")] = None,
) -> None:
    """Say which system answers each key, and store it: lines of CSV.

    Keys of a file are stored and printed a batch at a time; after an error it may be given again.
    """
    if ((file := given["file"]) is None) == (not keys):
        raise ValueError("name either keys or a --file of them")
    with _open_release(store, given["signing_key"]) as release:
        batches = [keys or []] if file is None else (e["key"] for _, e in _batches(str(file)))
        print_line("key,system")
        for batch in batches:
            named, lines = [str(key) for key in batch], io.StringIO()
            rows = zip(named, release.assign(named), strict=True)
            csv.writer(lines, lineterminator="\n").writerows(rows)
            print_line(lines.getvalue().removesuffix("\n"))


@app.command()
@command(given=OBSERVE)
def observe(store: StoreName, given: Any) -> None:
    """Store losses of keys: late, in any order; a loss may be repeated, but not changed.

    A file is stored a batch at a time, and may be given again after an error.
    """
    problems = []
    file, key, loss, system = (given[each] for each in ("file", "key", "loss", "system"))
    if (file is None) == (key is None):
        problems.append("name either a --file or a --key with its --loss")
    if (key is not None) != bool(loss):
        problems.append("--loss NAME=LOSS goes with --key; a file has its losses in columns")
    if system not in (None, "old", "new"):
        problems.append(f"--system must be old or new, got {system!r:.80}")
    refuse(problems)
    one = {"key": [key], **{name: [value] for name, value in named_numbers("--loss", loss).items()}}
    count = 0
    with _open_release(store, given["signing_key"]) as release:
        for first, batch in [(1, one)] if file is None else _batches(str(file)):
            try:
                count += _store(release, batch, system, given["keep_first"])
            except (ValueError, TypeError) as error:
                if file is None:
                    raise
                where = f"--file {file}, from row {first:,}"
                raise ValueError(f"{where}: {error}; {count:,} were stored before") from error
    print_line(f"{count:,} new {'loss' if count == 1 else 'losses'} stored.")


def _store(release: Any, batch: dict[str, Any], system: str | None, keep_first: bool) -> int:
    """Store the losses of a batch: those of the rows that name a system, and of those that do not.

    Columns that are not guardrails are left out if there are others.
    """
    keys = np.array([str(key) for key in batch.pop("key")], dtype=object)
    stated = [system or each or "" for each in batch.pop("system", [""] * len(keys))]
    names = [name for name in batch if name in release.settings.limits] or list(batch)
    values = np.array([batch[name] for name in names], dtype=np.float64)  # None is NaN
    stored = 0
    for who in dict.fromkeys(stated):
        rows = np.flatnonzero((np.array(stated) == who) & ~np.isnan(values).all(axis=0))
        if len(rows):
            losses = dict(zip(names, values[:, rows], strict=True))
            options = {"system": who or None, "keep_first": keep_first}
            stored += release.observe(keys[rows].tolist(), losses, **options)
    return stored


@app.command()
@command(given=SIGNED)
def advance(store: StoreName, given: Any, as_json: JsonOption = False) -> int:
    """End the present step and begin the next one, at a time that does not depend on losses.

    Exit code 3 if no share passes, 4 while an alarm stands: the old system answers all keys.
    """
    with _open_release(store, given["signing_key"]) as release:
        release.advance()
        return _show_step(release, as_json=as_json)


def _open_release(store: str, key: Path | None) -> Any:
    from tether.runs import Release

    return Release(store, deadline=SECONDS_TO_WAIT, key=key)


def _guardrails(given: list[str]) -> dict[str, Any]:
    """The values of --guardrail, by name."""
    from tether.runs import Guardrail, relative

    found: dict[str, Any] = {}
    for name, value in named("--guardrail", given).items():
        tolerated, _, bound = value.partition(":")
        most = number("--guardrail", bound or "1")
        if not tolerated.startswith("+"):
            found[name] = Guardrail(number("--guardrail", tolerated), bound=most)
        elif tolerated.endswith("%"):
            ratio = number("--guardrail", tolerated[1:-1]) / 100
            found[name] = relative(ratio=ratio, bound=most)
        else:
            found[name] = relative(number("--guardrail", tolerated[1:]), bound=most)
    return found


def _old_losses(path: str, names: list[str], problems: list[str]) -> dict[str, Any]:
    """The losses of the old system, one row for each key; NaN where one is missing."""
    table = open_dataset(path).to_table()
    if absent := [name for name in names if name not in table.column_names]:
        problems.append(f"--old {path} needs columns {absent}, got {table.column_names[:20]}")
        return {}
    if "key" in table.column_names and "key" not in names:
        keys = [key for key in table["key"].to_pylist() if key is not None]
        if repeated := len(keys) - len(set(keys)):
            problems.append(
                f"--old {path} must have one row for each key, and {repeated:,} of its rows repeat "
                f"one: decide what the one loss of a key is"
            )
    return {name: table[name].to_numpy() for name in names}


def _batches(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The first row and the columns of each batch of a file."""
    data, first = open_dataset(path), 1
    if "key" not in data.schema.names:
        raise ValueError(f"--file {path} must have a column 'key', got {data.schema.names[:20]}")
    for batch in data.to_batches():
        yield first, batch.to_pydict()
        first += batch.num_rows


def _show_step(release: Any, *, as_json: bool) -> int:
    """Print the present step: its share, what is promised, and why; the exit code."""
    from tether.runs.decide_share import COLLECTING
    from tether.view import document

    history = release.history()
    found = document(history, last=1)
    state, step = found["state"], found["units"][-1]
    show(step, as_json=as_json, text=told(found))
    if state["kind"] == "alarm":
        return ALARM_STANDS
    if state["kind"] == "safe" and history.units[-1].note != COLLECTING:
        return NOTHING_PASSES
    return 0
