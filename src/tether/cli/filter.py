"""`tether filter`: apply a threshold that was found to new claims."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tether._core import files, progress
from tether.cli.filtered_claims import ClaimColumns, FilteredClaims, copy_kept
from tether.cli.terminal import (
    NOTHING_PASSES,
    ForceOption,
    JsonOption,
    print_error,
    report_errors,
    require_file,
    run_interruptibly,
    show,
)
from tether.risk import Selection
from tether.risk.claim_filter import MANY_OUTSIDE, outside_in_words


@dataclass(frozen=True)
class FilterResult:
    """What was done: how many claims were kept, by which selection."""

    claims: FilteredClaims
    selection: Selection
    out: Path

    def to_dict(self) -> dict[str, Any]:
        """The counts, and what is promised, as plain values."""
        thresholds = {name: each.threshold for name, each in self.selection.groups.items()}
        return {
            **asdict(self.claims),
            "threshold": thresholds or self.selection.threshold,
            "loss": self.selection.loss,
            "promise": self.selection.promise,
            "out": str(self.out),
        }

    def __str__(self) -> str:
        counts, found = self.claims, self.selection
        share = counts.kept / counts.read if counts.read else 0.0
        by = f"score >= {found.threshold:.6g}"
        if found.groups:
            by = f"one threshold for each of {len(found.groups)} groups"
        there = "" if found.kept is None else f" here, {found.kept.share:.1%} in the calibration"
        text = (
            f"kept {counts.kept:,} of {counts.read:,} claims ({share:.1%}{there}): {by}\n"
            f"  promise   {found.statement}\n"
        )
        if counts.outside > MANY_OUTSIDE * counts.read:
            text += f"  ! {outside_in_words(found, counts.outside, counts.read)}\n"
        return f"{text}  saved in {self.out}"


@report_errors
def filter_(
    claims: Annotated[
        Path,
        typer.Argument(
            help="New claims, one row each: a Parquet or CSV file, or a folder or glob of Parquet."
        ),
    ],
    threshold: Annotated[
        Path, typer.Option(help="The selection that `tether threshold --out` saved.")
    ],
    score: Annotated[str, typer.Option(help="The column of scores: confidence in each claim.")],
    out: Annotated[Path, typer.Option(help="The file for the claims that are kept.")],
    group: Annotated[
        str | None,
        typer.Option(help="The column of groups, where each has a threshold. (default: none)"),
    ] = None,
    mark: Annotated[
        str | None,
        typer.Option(help="Keep all rows, and add this column that says which are kept."),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Keep the claims whose score reaches a threshold that was found.

    The promise is for complete items: every claim of an item must be there. The claims of a folder
    or a glob are written into one file. Nothing is written and the exit code is 3 if the selection
    has no useful promise.
    """
    require_file(threshold)
    files.require_other_file(out, claims, threshold)
    files.require_target(out, overwrite=force)
    selection = Selection.load(threshold)
    if not selection.useful:
        print_error(
            "no useful promise:",
            f"the selection in {threshold} promises {selection.promise:.4g} of a bound of "
            f"{selection.bound:.4g}, so nothing is written: run tether threshold with more items, "
            f"another --method or a larger --alpha",
        )
        raise typer.Exit(NOTHING_PASSES)
    columns = ClaimColumns(score, group, mark)

    def copy() -> FilteredClaims:
        with progress.step(f"filtering {claims}") as step:
            return copy_kept(claims, out, selection, columns, overwrite=force, step=step)

    counts = run_interruptibly(copy)
    show(FilterResult(counts, selection, out), as_json=as_json)
