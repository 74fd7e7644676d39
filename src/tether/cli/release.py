"""`tether release`: a ramp from an old system to a new one, on the command line."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tether._core.words import read_duration, visible_lines
from tether.cli import runs
from tether.cli.status import EveryOption, FollowOption, plain_history
from tether.cli.status import status as any_status
from tether.cli.tables import open_dataset
from tether.cli.terminal import (
    ALARM_STANDS,
    NOTHING_PASSES,
    ActorOption,
    JsonOption,
    Options,
    ReasonOption,
    StoreName,
    argument,
    named_numbers,
    number,
    print_line,
    report_errors,
    with_options,
)

SECONDS_PER_BATCH = 60.0
"""How long a batch of a file may wait for the store."""
OPTIONS = {
    **{"guardrails": "--guardrail", "old": "--old", "confidence": "--confidence"},
    **{"keys_per_step": "--keys-per-step", "step_duration": "--step-duration", "wait": "--wait"},
    **{"alarm_risk": "--alarm-risk", "max_silence": "--max-silence", "salt": "--salt"},
    **{"keep_first": "--keep-first", "losses": "--loss", "risk": "--old-risk"},
}
"""The arguments of `tether.Release` that are options here."""

GUARDRAIL: Options = {
    "guardrail": (
        list[str],
        ...,
        "NAME=ALPHA[:BOUND]: a loss, and what is tolerated; repeat.",
    ),
    "promise": (bool, False, "The numbers are for the whole promise, not for alpha."),
}
PLAN: Options = GUARDRAIL | {
    "old_risk": (list[str], [], "NAME=RISK: the old mean loss. (default: half of the tolerated)")
}
START: Options = GUARDRAIL | {
    "old": (
        Path | None,
        None,
        "Losses of the old system, one row for each key.",
    ),
    "confidence": (float | None, None, "Promise alpha with this probability at all steps."),
    "keys_per_step": (int | None, None, "A step ends after so many keys."),
    "step_duration": (str | None, None, "Instead: after this time, as in 15m. (default: by hand)"),
    "wait": (int, 0, "How many steps after its end the rows of a step are used."),
    "max_silence": (str | None, None, "Alarm after so many keys, or a time as 12h; none: never."),
    "alarm_risk": (list[str], [], "NAME=RISK above which there is an alarm. (default: 1.5 ×)"),
    "salt": (str | None, None, "What keys are hashed with, in hexadecimal. (default: random)"),
}
OBSERVE: Options = {
    "file": (Path | None, None, "A file with `key`, a column for each guardrail, maybe `system`."),
    "key": (str | None, None, "One key, instead of a file."),
    "loss": (list[str], [], "NAME=LOSS: a loss of this key; repeat for several."),
    "system": (str | None, None, "old or new. (default: the column, or who first answered last)"),
    "keep_first": (bool, False, "Skip losses of keys that have one, instead of refusing others."),
    "skip_unknown": (bool, False, "Skip losses of keys that were never assigned."),
}

app = typer.Typer(
    help="Ramp a new system up beside an old one; neither tells probabilities.",
    no_args_is_help=True,
)


@app.command()
@report_errors
@with_options(PLAN)
def plan(given: Any, as_json: JsonOption = False) -> None:
    """Say how many rows of the old system a release needs, and how likely fewer do not pass.

    They are the rows of --old, or else those of the first step; a release uses no others.
    """
    from tether.release.first_step_plan import plan_first_step
    from tether.release.guardrail import Guardrail

    risks, promise = named_numbers("--old-risk", given["old_risk"]), given["promise"]
    limits = _guardrails(given["guardrail"])
    if unknown := set(risks) - set(limits):
        raise ValueError(f"--old-risk must name guardrails {sorted(limits)}, got {sorted(unknown)}")
    plans = {}
    for name, (tolerated, bound) in limits.items():
        target: dict[str, Any] = {"promise" if promise else "alpha": tolerated}
        with _naming_options():
            plans[name] = plan_first_step(Guardrail(bound=bound, **target), risks.get(name))
    if as_json:
        print(json.dumps({name: asdict(each) for name, each in plans.items()}, indent=2))
        return
    for name, each in plans.items():
        asked = "a promise" if promise else "an alpha"
        print_line(
            f"Rows of the old system for {asked} of {each.guardrail.tolerated:g} for {name}, if "
            f"its risk is {each.risk:g}:\n{'rows':<10}  {'losses that pass':<16}  does not pass"
        )
        for row in each.planned:
            whole = each.guardrail.bound == 1
            most = f"{math.floor(row.most_losses):,}" if whole else f"{row.most_losses:.4g}"
            print_line(f"{row.rows:<10,}  {most:<16}  {row.fails:.1%}")
        enough = f"Begin with {each.enough:,} or more." if each.enough is not None else ""
        print_line(enough or "No number of rows is enough: the risk is too close to the tolerated.")


@app.command()
@report_errors
@with_options(START)
def start(store: StoreName, given: Any, as_json: JsonOption = False) -> None:
    """Create a release, and show its first share; one that has the same settings continues.

    Exit code 3 if no share passes, because the old system alone does not.
    """
    from tether.rounds import Release
    from tether.rounds.releases.closed_share import closed_share_advice

    if given["promise"] and given["confidence"] is not None:
        raise ValueError("--confidence promises alpha itself: leave out --promise")
    limits: Any = _guardrails(given.pop("guardrail"))
    given["alarm_risk"] = named_numbers("--alarm-risk", given["alarm_risk"])
    given = {name: value for name, value in given.items() if value not in (None, {})}
    if "old" in given:
        given["old"] = _old_losses(str(given["old"]), list(limits))
    if "step_duration" in given:
        time = given["step_duration"]
        given["step_duration"] = read_duration("--step-duration", time, "a time such as 12h")
    if (silence := given.get("max_silence")) is not None:
        given["max_silence"] = None
        if re.fullmatch(r"[0-9]{1,15}", silence):
            given["max_silence"] = int(silence)
        elif silence != "none":
            wanted = "a number of keys, a time such as 12h, or none"
            given["max_silence"] = read_duration("--max-silence", silence, wanted)
    if "salt" in given:
        try:
            given["salt"] = bytes.fromhex(given["salt"])
        except ValueError:
            raise ValueError(f"--salt must be in hexadecimal, got {given['salt']!r:.80}") from None
    with _naming_options(), Release(store, limits, **given) as made:
        history = made.history()
    _show_step(history, as_json=as_json)
    if closed_share_advice(history.steps[-1].calibration):
        raise typer.Exit(NOTHING_PASSES)


@app.command()
@report_errors
@with_options({"file": (Path | None, None, "A file with the keys in its column `key`.")})
def assign(
    store: StoreName,
    given: Any,
    keys: Annotated[list[str] | None, argument("The keys: users, sessions, devices.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which system answers each key, and store it: lines of CSV, or of JSON with --json.

    Keys of a file are stored and printed a batch at a time; after an error it may be given again.
    """
    from tether.rounds import Release

    if ((file := given["file"]) is None) == (not keys):
        raise ValueError("name either keys or a --file of them")
    with Release(store, deadline=SECONDS_PER_BATCH) as release:
        batches = [keys or []] if file is None else (e["key"] for _, e in _batches(str(file)))
        writer = csv.writer(_Escaped(), lineterminator="\n")
        for place, batch in enumerate(batches):
            named = [str(key) for key in batch]
            pairs = list(zip(named, release.assign(named), strict=True))
            if as_json:
                for key, system in pairs:
                    print(json.dumps({"key": key, "system": system}))
            else:
                writer.writerows([*([("key", "system")] if place == 0 else []), *pairs])


@app.command()
@report_errors
@with_options(OBSERVE)
def observe(store: StoreName, given: Any) -> None:
    """Store losses of keys: late, in any order; a loss may be repeated, but not changed.

    A file is stored a batch at a time, and may be given again after an error.
    """
    from tether.rounds import Release

    problems = []
    file, key, loss, system = (given[each] for each in ("file", "key", "loss", "system"))
    if (file is None) == (key is None):
        problems.append("name either a --file or a --key with its --loss")
    if (key is not None) != bool(loss):
        problems.append("--loss NAME=LOSS goes with --key; a file has its losses in columns")
    if system not in (None, "old", "new"):
        problems.append(f"--system must be old or new, got {system!r:.80}")
    if problems:
        raise ValueError("; ".join(problems))
    count, skipped = 0, 0
    with Release(store, deadline=SECONDS_PER_BATCH) as release:
        names = list(release.settings.limits)
        if file is None:
            losses = {k: [v] for k, v in named_numbers("--loss", loss).items()}
            batches: Any = [(1, {"key": [key], **losses})]
        else:
            batches = _batches(str(file))
        for first, batch in batches:
            if not set(batch) & set(names):
                raise ValueError(f"--file {file} has a column for none of the guardrails {names}")
            try:
                with _naming_options():
                    stored, left = _store(release, batch, names, given)
            except (ValueError, TypeError) as error:
                if file is None:
                    raise
                where = f"--file {file}, from row {first:,}"
                raise ValueError(f"{where}: {error}; {count:,} were stored before") from error
            count, skipped = count + stored, skipped + left
    print_line(f"{count:,} new {'loss' if count == 1 else 'losses'} stored.")
    if skipped:
        print_line(f"Skipped: {skipped:,} of keys that were never assigned to the system.")


def _store(release: Any, batch: dict[str, Any], names: list[str], given: Any) -> tuple[int, int]:
    """Store each guardrail and system of some rows by itself; what was new, and what skipped."""
    from tether.rounds.releases.assigned_systems import assigned_systems
    from tether.rounds.releases.repeated_outcomes import counted_places

    system, keep_first = given["system"], given["keep_first"]
    keys = np.array([str(key) for key in batch["key"]], dtype=object)
    stated = np.array([e or "" for e in batch.get("system", [""] * len(keys))], dtype=object)
    if system is not None and not np.isin(stated, ["", system]).all():
        raise ValueError(f"--system {system} contradicts the column 'system'")
    stated = np.full(len(keys), system or "", dtype=object) if system else stated
    stored = skipped = 0
    for who in dict.fromkeys(stated.tolist()):
        for name in set(names) & set(batch):
            losses = np.array([np.nan if e is None else e for e in batch[name]], dtype=np.float64)
            known = np.flatnonzero((stated == who) & ~np.isnan(losses)).tolist()
            outcomes = [{name: float(losses[place])} for place in known]
            kept = counted_places(keys[known].tolist(), outcomes, keep_first=keep_first)
            places = [known[place] for place in kept]
            if given["skip_unknown"]:
                found = assigned_systems(release, keys[places].tolist())
                right = [bool(each) if not who else who in each for each in found]
                skipped += right.count(False)
                places = [place for place, is_right in zip(places, right, strict=True) if is_right]
            if places:
                values = {name: losses[places].tolist()}
                options = {"system": who or None, "keep_first": keep_first}
                stored += release.observe(keys[places].tolist(), values, **options)
    return stored, skipped


@app.command()
@report_errors
def advance(store: StoreName, as_json: JsonOption = False) -> None:
    """End the present step and begin the next one, at a time that does not depend on losses.

    Exit code 3 if no share passes, 4 while an alarm stands: the old system answers all keys.
    """
    from tether.rounds import Release

    with Release(store) as release:
        release.advance()
        history = release.history()
    _show_step(history, as_json=as_json)
    if history.alarm is not None:
        raise typer.Exit(ALARM_STANDS)
    if history.steps[-1].share == 0:
        raise typer.Exit(NOTHING_PASSES)


@app.command()
@report_errors
def status(
    store: StoreName,
    follow: FollowOption = False,
    every: EveryOption = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Show the steps of a release, with losses and alarms; exit code 4 while an alarm stands."""
    from tether.rounds.any_history import read_any_history

    if not hasattr(read_any_history(store), "steps"):
        raise ValueError(f"{store} is the store of a run, not of a release: tether status shows it")
    any_status(store, follow=follow, every=every, as_json=as_json)


@app.command()
@report_errors
def halt(store: StoreName, reason: ReasonOption, actor: ActorOption = None) -> None:
    """Let the old system answer all keys, in every process, until `tether release resume`."""
    runs.halt(store, reason, actor)


@app.command()
@report_errors
def resume(store: StoreName, reason: ReasonOption, actor: ActorOption = None) -> None:
    """Clear the alarms that stand, so that a new ramp begins; record who did it and why."""
    runs.resume(store, reason, actor)


def _guardrails(given: list[str]) -> dict[str, tuple[float, float]]:
    """The values of --guardrail: NAME=ALPHA, or NAME=ALPHA:BOUND."""
    found = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        alpha, _, bound = value.partition(":")
        if not (name and equals) or name in found:
            raise ValueError(
                f"--guardrail must be NAME=ALPHA or NAME=ALPHA:BOUND, got {text!r:.80}"
            )
        found[name] = number("--guardrail", alpha), number("--guardrail", bound or "1")
    return found


def _old_losses(path: str, names: list[str]) -> dict[str, Any]:
    """The losses of the old system, one row for each key."""
    table = open_dataset(path).to_table()
    if absent := [name for name in names if name not in table.column_names]:
        raise ValueError(f"--old {path} needs columns {absent}, got {table.column_names[:20]}")
    if "key" in table.column_names and "key" not in names:
        keys = [key for key in table["key"].to_pylist() if key is not None]
        if repeated := len(keys) - len(set(keys)):
            raise ValueError(
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


def _show_step(history: Any, *, as_json: bool) -> None:
    """Print the present step: its share, what is promised, and why."""
    from tether.rounds.releases.closed_share import closed_share_advice

    step, found = history.steps[-1], history.steps[-1].calibration
    if as_json:
        print(json.dumps(plain_history(history)["steps"][-1], indent=2))
    elif found.reason:
        advice = closed_share_advice(found)
        text = f"Step {step.number}: the old system answers all keys: {step.why}"
        print_line(f"{text}; {advice}" if advice else text)
    else:
        stated = ", ".join(f"{name} ≤ {found.promises[name]:.3g}" for name in history.limits)
        sure = "in expectation"
        if history.confidence is not None:
            sure = f"with confidence {history.confidence:g} at all steps"
        print_line(
            f"Step {step.number}: the new system has {step.share:.3%} of the keys: {step.why}. "
            f"Promised {sure}: {stated}"
        )


@contextmanager
def _naming_options() -> Iterator[None]:
    """Errors about arguments, as errors about the options that stand for them."""
    try:
        yield
    except (ValueError, TypeError) as error:
        message = str(error)
        for name, option in OPTIONS.items():
            pattern = rf"\b{name}\b" if "_" in name else rf"^{name}(?=[ \[])"
            message = re.sub(pattern, option, message)
        raise type(error)(message) from error


class _Escaped:
    """Standard output, on which control characters of keys are shown as escapes."""

    def write(self, text: str) -> int:
        return sys.stdout.write(visible_lines(text))
