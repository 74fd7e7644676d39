"""`tether release observe`: store losses of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    skip_unknown: Annotated[
        bool,
        typer.Option(
            "--skip-unknown",
            help="Skip and list losses of keys that were never assigned to the system, instead of "
            "refusing all.",
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
        storing = _Storing(release, keep_first, skip_unknown)
        if file is not None:
            _observe_file(storing, file, system)
        else:
            losses = named_numbers("--loss", loss or [])
            with naming_options({"losses": "--loss"} | KEEP_FIRST):
                storing.observe([key or ""], {k: [v] for k, v in losses.items()}, system)
    print_line(f"{storing.count:,} new {'loss' if storing.count == 1 else 'losses'} stored.")
    for each in storing.skipped:
        print_line(f"Skipped: {each}.")


@dataclass
class _Storing:
    """Where losses go, how many were new, and what was skipped, once each, in words."""

    release: Release
    keep_first: bool
    skip_unknown: bool
    count: int = 0
    skipped: dict[str, None] = field(default_factory=dict)

    def observe(
        self, keys: list[str], losses: Mapping[str, Sequence[float]], system: str | None
    ) -> None:
        """Store the losses of keys, each once, and without unknown ones if those are skipped."""
        from tether.rounds.releases.repeated_outcomes import counted_places

        outcomes = [
            dict(zip(losses, each, strict=True)) for each in zip(*losses.values(), strict=True)
        ]
        places = counted_places(keys, outcomes, keep_first=self.keep_first)
        if self.skip_unknown:
            places = self._known(keys, places, system)
        if places:
            self.count += self.release.observe(
                [keys[place] for place in places],
                {name: [values[place] for place in places] for name, values in losses.items()},
                system=system,
                keep_first=self.keep_first,
            )

    def _known(self, keys: list[str], places: list[int], system: str | None) -> list[int]:
        """Those places whose keys have a row of the system, or of any if none is named."""
        from tether.rounds.releases.assigned_systems import assigned_systems

        found = assigned_systems(self.release, [keys[place] for place in places])
        known = []
        for place, systems in zip(places, found, strict=True):
            if system in systems or (system is None and systems):
                known.append(place)
            else:
                to = "" if system is None else f" to the {system} system"
                self.skipped[f"key {keys[place]!r} was never assigned{to}"] = None
        return known


def _observe_file(storing: _Storing, path: Path, system: str | None) -> None:
    names = list(storing.release.settings.limits)
    if {KEY_COLUMN, SYSTEM_COLUMN} & set(names):
        raise ValueError(
            f"--file: a guardrail is named {KEY_COLUMN!r} or {SYSTEM_COLUMN!r}, as another column "
            f"is; use --key and --loss"
        )
    for batch in read_batches(path, texts=(KEY_COLUMN, SYSTEM_COLUMN), numbers=names):
        if KEY_COLUMN not in batch.texts or not batch.numbers:
            raise ValueError(
                f"--file {path} must have a column {KEY_COLUMN!r}, and one for at least one of "
                f"the guardrails {names}"
            )
        try:
            with naming_options(KEEP_FIRST):
                _observe_batch(storing, batch, system)
        except (ValueError, TypeError) as error:
            last = batch.first + batch.rows - 1
            raise ValueError(
                f"--file {path}, rows {batch.first:,} to {last:,}: {error}; {storing.count:,} new "
                f"losses were stored before"
            ) from error


def _observe_batch(storing: _Storing, batch: Batch, system: str | None) -> None:
    """Store each guardrail and system of some rows by itself, as far as its losses are known."""
    keys = np.array(batch.texts[KEY_COLUMN], dtype=object)
    stated = np.array(batch.texts.get(SYSTEM_COLUMN, [""] * batch.rows), dtype=object)
    if system is not None:
        if not np.isin(stated, ["", system]).all():
            raise ValueError(f"--system {system} contradicts the column {SYSTEM_COLUMN!r}")
        stated[:] = system
    for each in dict.fromkeys(stated.tolist()):
        for name, losses in batch.numbers.items():
            known = np.flatnonzero((stated == each) & ~np.isnan(losses))
            storing.observe(keys[known].tolist(), {name: losses[known].tolist()}, each or None)
