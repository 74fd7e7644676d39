"""`tether release observe`: store losses of keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from tether.cli.releases.assign import KEY_COLUMN, SECONDS_PER_BATCH, SYSTEM_COLUMN
from tether.cli.releases.option_values import named_numbers, naming_options
from tether.cli.table_batches import Batch, read_batches
from tether.cli.terminal import StoreName, print_line, report_errors

if TYPE_CHECKING:
    from tether.rounds import Release

KEEP_FIRST = {"keep_first": "--keep-first"}
"""The argument of `Release.observe` that is an option here."""


@report_errors
def observe(
    store: StoreName,
    file: Annotated[
        Path | None,
        typer.Option(
            help="A Parquet, CSV or JSON lines file with a column `key`, one for each guardrail "
            "(empty: not known yet), and maybe `system`."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="One key, instead of a file.")] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LOSS", help="A loss of this key; repeat for several."),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            metavar="old|new",
            help="The system that caused the losses. (default: the column `system`, or the one "
            "that was first to answer most recently)",
        ),
    ] = None,
    keep_first: Annotated[
        bool,
        typer.Option(
            "--keep-first",
            help="Skip losses of keys that have one already, instead of refusing others; only "
            "where the losses of a key come in order.",
        ),
    ] = False,
) -> None:
    """Store losses of keys: late, in any order; a loss may be repeated, but not changed.

    A file is stored a batch at a time, and may be given again after an error.
    """
    from tether.rounds import Release

    if (file is None) == (key is None):
        raise ValueError("name either a --file or a --key with its --loss")
    if key is not None and not loss:
        raise ValueError("--key needs at least one --loss NAME=LOSS")
    if file is not None and loss:
        raise ValueError("--loss is for a --key; a file has its losses in columns")
    if system not in (None, "old", "new"):
        raise ValueError(f"--system must be old or new, got {system!r:.80}")
    with Release(store, deadline=SECONDS_PER_BATCH) as release:
        if file is not None:
            count = _observe_file(release, file, system, keep_first)
        else:
            losses = named_numbers("--loss", loss or [])
            with naming_options({"losses": "--loss"} | KEEP_FIRST):
                count = release.observe(key or "", losses, system=system, keep_first=keep_first)
    print_line(f"{count:,} new {'loss' if count == 1 else 'losses'} stored.")


def _observe_file(release: Release, path: Path, system: str | None, keep_first: bool) -> int:
    names = list(release.settings.limits)
    if {KEY_COLUMN, SYSTEM_COLUMN} & set(names):
        raise ValueError(
            f"--file: a guardrail is named {KEY_COLUMN!r} or {SYSTEM_COLUMN!r}, as another column "
            f"is; use --key and --loss"
        )
    count = 0
    for batch in read_batches(path, texts=(KEY_COLUMN, SYSTEM_COLUMN), numbers=names):
        if KEY_COLUMN not in batch.texts or not batch.numbers:
            raise ValueError(
                f"--file {path} must have a column {KEY_COLUMN!r}, and one for at least one of "
                f"the guardrails {names}"
            )
        try:
            with naming_options(KEEP_FIRST):
                count += _observe_batch(release, batch, system, keep_first)
        except (ValueError, TypeError) as error:
            last = batch.first + batch.rows - 1
            raise ValueError(
                f"--file {path}, rows {batch.first:,} to {last:,}: {error}; {count:,} new losses "
                f"were stored before"
            ) from error
    return count


def _observe_batch(release: Release, batch: Batch, system: str | None, keep_first: bool) -> int:
    """Store each guardrail and system of some rows by itself, as far as its losses are known.

    If `keep_first`, a key may be there several times, and the first of its rows counts.
    """
    keys = np.array(batch.texts[KEY_COLUMN], dtype=object)
    stated = np.array(batch.texts.get(SYSTEM_COLUMN, [""] * batch.rows), dtype=object)
    if system is not None:
        if not np.isin(stated, ["", system]).all():
            raise ValueError(f"--system {system} contradicts the column {SYSTEM_COLUMN!r}")
        stated[:] = system
    count = 0
    for each in dict.fromkeys(stated.tolist()):
        for name, losses in batch.numbers.items():
            known = np.flatnonzero((stated == each) & ~np.isnan(losses))
            if keep_first:
                known = known[_first_places(keys[known].tolist())]
            if len(known):
                count += release.observe(
                    keys[known].tolist(),
                    {name: losses[known]},
                    system=each or None,
                    keep_first=keep_first,
                )
    return count


def _first_places(keys: list[str]) -> list[int]:
    """Where each key is for the first time."""
    places: dict[str, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, place)
    return list(places.values())
