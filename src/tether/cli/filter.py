"""`tether filter`: apply a threshold that was found to new claims."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tether._core import files, progress
from tether._core.counted import counted
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import PromiseWarning
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
from tether.risk.claim_filter import (
    MANY_OUTSIDE,
    outside_in_words,
    refused_in_words,
    why_not_useful,
)
from tether.risk.kept_comparison import kept_doubts
from tether.risk.loss_words import loss_in_words

COUNTS = ("read", "kept", "outside", "refused")
"""What is counted, in the result as JSON."""
MAX_NAMED_GROUPS = 6
"""Of how many groups the promises are named one by one."""


@dataclass(frozen=True)
class FilterResult:
    """What was done: how many claims were kept, by which selection."""

    claims: FilteredClaims
    selection: Selection
    out: Path

    @property
    def doubts(self) -> list[str]:
        """Why these scores may not be those that were calibrated."""
        counts, found = self.claims, self.selection
        if counts.outside > MANY_OUTSIDE * counts.read:
            return [outside_in_words(found, counts.outside, counts.read)]
        return kept_doubts(found, counts.by_group, counts.items)

    def to_dict(self) -> dict[str, Any]:
        """The counts, and what is promised, as plain values."""
        thresholds = {name: each.threshold for name, each in self.selection.groups.items()}
        counts = {name: getattr(self.claims, name) for name in COUNTS}
        return {
            **counts,
            "threshold": thresholds or self.selection.threshold,
            "loss": self.selection.loss,
            "promise": self.selection.promise,
            "refused_groups": list(self.selection.refused_groups),
            "warnings": self.doubts,
            "out": str(self.out),
        }

    def __str__(self) -> str:
        counts, found = self.claims, self.selection
        share = counts.kept / counts.read if counts.read else 0.0
        by = f"score >= {found.threshold:.6g}"
        if np.isinf(found.threshold):
            by = "the threshold is above all scores" if found.threshold > 0 else "all are kept"
        if found.groups:
            served = sum(part.useful for part in found.groups.values())
            by = f"one threshold for each of {counted(served, 'group')}"
        there = "" if found.kept is None else f" here, {found.kept.share:.1%} in the calibration"
        text = (
            f"kept {counts.kept:,} of {counted(counts.read, 'claim')} ({share:.1%}{there}): {by}\n"
            f"  promise   {_promise(found)}\n"
        )
        if found.refused_groups:
            text += f"  refused   {refused_in_words(found, counts.refused)}\n"
        if (most := found.settings.get("most_claims")) is not None and counts.items is None:
            text += f"  limit     {most} claims per item, not checked: name the items with --item\n"
        text += "".join(f"  ! {doubt}\n" for doubt in self.doubts)
        return f"{text}  saved in {self.out}"


def _require_losses(selection: Selection, losses: list[str], path: Path) -> None:
    """Raise unless the selection was calibrated for these losses."""
    found = [part.loss for part in selection.by_loss] or [selection.loss]
    if sorted(losses) != sorted(found):
        raise ValueError(
            f"--loss: {path} was calibrated for {' and '.join(found)}, not for "
            f"{' and '.join(losses)}"
        )


def _promise(found: Selection) -> str:
    """The promise with the loss in words; of several groups, that of each."""
    if not found.groups:
        return found.statement
    served = [(name, part.promise) for name, part in found.groups.items() if part.useful]
    each = ", ".join(f"{name} {promise:.4g}" for name, promise in served[:MAX_NAMED_GROUPS])
    if len(served) > MAX_NAMED_GROUPS:
        each = f"{max(promise for _, promise in served):.4g} in each of them"
    sure = next(iter(found.groups.values())).settings.get("confidence")
    surely = "" if sure is None else f"with probability at least {sure:g} for each, "
    what = loss_in_words(found)
    if what is None:
        what = "loss" if found.by_loss or not found.loss else found.loss
    return f"within each group, {surely}expected {what} at most: {each}"


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
    item: Annotated[
        str | None,
        typer.Option(help="The column that names the item of each claim. (default: none)"),
    ] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option(help="Refuse a selection for another loss; repeat for several."),
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
    has no useful promise; with groups, if none of them has one. Nothing is written either, and the
    exit code is 2, if most scores lie outside those of the calibration, or one of them further than
    their range is wide, or an item (--item) has more claims than the promise is about. What is kept
    is written, and the exit code is 3, if it is so much less or more than in the calibration that
    these may be other scores; with --item few items suffice to tell. Of groups without a useful
    promise beside others nothing is kept (with the loss miss everything), and they are named.
    """
    require_file(threshold)
    files.require_other_file(out, claims, threshold)
    files.require_target(out, overwrite=force)
    selection = Selection.load(threshold)
    if loss:
        _require_losses(selection, loss, threshold)
    if not selection.serves:
        asked = "alpha" if selection.target is None else "promise"
        why = "in none of the groups" if selection.groups else why_not_useful(selection)
        print_error(
            "no useful promise:",
            f"{threshold}: {why}, so nothing is written: find a threshold again, with more items, "
            f"another method or a larger {asked}",
        )
        raise typer.Exit(NOTHING_PASSES)
    columns = ClaimColumns(score, group, mark, item)

    def copy() -> FilteredClaims:
        with progress.step(f"filtering {claims}") as step:
            found = copy_kept(claims, out, selection, columns, overwrite=force, step=step)
        if found.read and not found.kept:
            warn_user(
                f"nothing is kept of {counted(found.read, 'claim')}: no score in {claims} reaches "
                f"the threshold, and {out} has no claims that are kept. Are these the scores that "
                f"were calibrated (--score {score})?",
                PromiseWarning,
            )
        return found

    counts = run_interruptibly(copy)
    result = FilterResult(counts, selection, out)
    show(result, as_json=as_json)
    if result.doubts:
        raise typer.Exit(NOTHING_PASSES)
