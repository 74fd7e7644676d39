"""`tether release start`: create a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tether._core.text_hints import loss_hint
from tether.cli.releases import option_values
from tether.cli.releases.assign import KEY_COLUMN
from tether.cli.releases.step_text import show_step
from tether.cli.shown_warnings import warnings_kept
from tether.cli.table_batches import read_batches
from tether.cli.table_file import Wanted, read_columns
from tether.cli.terminal import (
    NOTHING_PASSES,
    JsonOption,
    MaxRowsOption,
    StoreName,
    report_errors,
)

OPTIONS_OF_START = {
    "guardrails": "--guardrail",
    "old": "--old",
    "confidence": "--confidence",
    "keys_per_step": "--keys-per-step",
    "step_duration": "--step-duration",
    "wait": "--wait",
    "alarm_risk": "--alarm-risk",
    "max_silence": "--max-silence",
    "salt": "--salt",
}
"""The arguments of `tether.Release` that are options here."""


class StartCommand(TyperCommand):
    """The command, which says how a promise is named where --promise is given a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        given = next((each for each in args if each.startswith("--promise=")), None)
        if given is not None:
            ctx.fail(
                f"--promise takes no value, got {given!r:.80}: the number stands in --guardrail, "
                f"as in --guardrail complaint={given.partition('=')[2]:.20} --promise, and "
                f"--promise says that it is the whole promise and not alpha"
            )
        return super().parse_args(ctx, args)


@report_errors
def start(
    store: StoreName,
    guardrail: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=ALPHA[:BOUND]",
            help="A loss and what is tolerated of it, out of at most BOUND (1 without it); repeat "
            "for several.",
        ),
    ],
    old: Annotated[
        Path | None,
        typer.Option(
            help="Losses of the old system from before the release, one row for each key: a "
            "Parquet or CSV file with a column for each guardrail, empty where one is not known. "
            "If it has a column `key`, each key must be there once."
        ),
    ] = None,
    promise: Annotated[
        bool,
        typer.Option("--promise", help="The numbers are for the whole promise, not for alpha."),
    ] = False,
    confidence: Annotated[
        float | None,
        typer.Option(help="Promise alpha with this probability at all steps simultaneously."),
    ] = None,
    keys_per_step: Annotated[
        int | None, typer.Option(help="A step ends after so many keys.")
    ] = None,
    step_duration: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Instead: a step ends after this time, in seconds or as in 15m, 12h or 7d. "
            "(default: steps end by `tether release advance`)",
        ),
    ] = None,
    wait: Annotated[
        int, typer.Option(help="How many steps after its end the rows of a step are used.")
    ] = 0,
    max_silence: Annotated[
        str | None,
        typer.Option(
            metavar="KEYS|TIME|none",
            help="Raise an alarm after so many keys, or a time such as 12h, without a loss. "
            "(default: 10000)",
        ),
    ] = None,
    alarm_risk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=RISK",
            help="The risk above which a monitor raises an alarm. (default: 1.5 times what is "
            "tolerated, and at most halfway from there to the bound)",
        ),
    ] = None,
    salt: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="What keys are hashed with. (default: random)"),
    ] = None,
    max_rows: MaxRowsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a release, and show its first share; one that has the same settings continues.

    Exit code 3 if no share passes, because the old system alone does not.
    """
    from tether.rounds import Release
    from tether.rounds.releases.closed_share import closed_share_advice

    if promise and confidence is not None:
        raise ValueError("--confidence promises alpha itself: leave out --promise")
    limits = option_values.guardrails(guardrail)
    given: dict[str, Any] = {}
    if old is not None:
        given["old"] = _old_losses(old, list(limits), max_rows)
    elif max_rows is not None:
        raise ValueError("--max-rows is for the file that --old names")
    if step_duration is not None:
        given["step_duration"] = option_values.duration("--step-duration", step_duration)
    if max_silence is not None:
        given["max_silence"] = option_values.silence(max_silence)
    if alarm_risk:
        given["alarm_risk"] = option_values.named_numbers("--alarm-risk", alarm_risk)
    if salt is not None:
        given["salt"] = option_values.salt(salt)
    given |= {"promise": promise, "confidence": confidence}
    given |= {"keys_per_step": keys_per_step, "wait": wait}
    with (
        warnings_kept(),
        option_values.naming_options(OPTIONS_OF_START),
        Release(store, limits, **given) as made,
    ):
        history = made.history()
    show_step(history, as_json=as_json)
    if closed_share_advice(history.steps[-1].calibration):
        raise typer.Exit(NOTHING_PASSES)


def _old_losses(path: Path, names: list[str], max_rows: int | None) -> dict[str, Any]:
    found = read_columns(path, Wanted(names, numbers=names), max_rows)
    for name in names:
        if name not in found.arrays:
            raise ValueError(
                f"--old {path} must have one column {name!r}, got {found.column_names[:20]}"
            )
        if found.arrays[name].dtype.kind not in "fiub":
            hint = loss_hint(found.arrays[name].tolist())
            raise ValueError(f"--old {path}: column {name!r} must hold numbers{hint}")
    if KEY_COLUMN in found.column_names and KEY_COLUMN not in names:
        _refuse_repeated_keys(path)
    return found.arrays


def _refuse_repeated_keys(path: Path) -> None:
    """Refuse keys with several rows; rows without a key are not compared."""
    seen: set[str] = set()
    count, rows, first = 0, 0, ""
    for batch in read_batches(path, texts=(KEY_COLUMN,), numbers=()):
        rows += batch.rows
        for key in batch.texts[KEY_COLUMN]:
            if key and key in seen:
                count, first = count + 1, first or key
            seen.add(key)
    if count:
        raise ValueError(
            f"--old {path} must have one row for each key, and {count:,} of its {rows:,} rows "
            f"repeat one; the first is {first!r:.80}: decide what the one loss of a key is"
        )
