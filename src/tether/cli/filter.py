"""`tether filter`: apply a threshold that was found to new claims."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tether._core import files, progress
from tether._core.counted import counted
from tether._core.types import Booleans
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import PromiseWarning
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
from tether.cli.threshold import open_claims, read_columns
from tether.thresholds import Selection, filter_claims
from tether.thresholds.filter import by_part, kept_doubt, why_not_useful


@dataclass(frozen=True)
class FilterResult:
    """What was done: how many claims were kept, by which selection."""

    selection: Selection
    read: int
    kept: int
    doubts: list[str]
    out: Path

    def to_dict(self) -> dict[str, Any]:
        """The counts, and what is promised, as plain values."""
        found = self.selection
        thresholds = {name: each.threshold for name, each in found.groups.items()}
        return {
            "read": self.read,
            "kept": self.kept,
            "threshold": thresholds or found.threshold,
            "loss": found.loss,
            "promise": found.promise,
            "refused_groups": list(found.refused_groups),
            "warnings": self.doubts,
            "out": str(self.out),
        }

    def __str__(self) -> str:
        found, share = self.selection, self.kept / self.read if self.read else 0.0
        by, promise = f"score >= {found.threshold:.6g}", found.statement
        if found.groups:
            served = [(name, part.promise) for name, part in found.groups.items() if part.useful]
            by = f"one threshold for each of {counted(len(served), 'group')}"
            promise = "; ".join(f"{name} at most {promise:.4g}" for name, promise in served)
            promise = f"expected loss within each group: {promise}"
        there = "" if found.kept is None else f" here, {found.kept.share:.1%} in the calibration"
        lines = [
            f"kept {self.kept:,} of {counted(self.read, 'claim')} ({share:.1%}{there}): {by}",
            f"  promise   {promise}",
            *(f"  ! {doubt}" for doubt in self.doubts),
            f"  saved in {self.out}",
        ]
        return "\n".join(lines)


@report_errors
def filter_(
    claims: Annotated[
        str,
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
    these may be other scores. Of groups without a useful promise beside others nothing is kept
    (with the loss miss everything), and they are named.
    """
    require_file(threshold)
    files.require_other_file(out, Path(claims), threshold)
    files.require_target(out, overwrite=force)
    selection = Selection.load(threshold)
    found = [part.loss for part in selection.by_loss] or [selection.loss]
    if loss and sorted(loss) != sorted(found):
        raise ValueError(
            f"--loss: {threshold} was calibrated for {' and '.join(found)}, not for "
            f"{' and '.join(loss)}"
        )
    if not selection.serves:
        why = "in none of the groups" if selection.groups else why_not_useful(selection)
        print_error(
            "no useful promise:",
            f"{threshold}: {why}, so nothing is written: find a threshold again, with more items, "
            f"another method or a larger {'alpha' if selection.rule == 'alpha' else 'promise'}",
        )
        raise typer.Exit(NOTHING_PASSES)
    names = {"score": score, "group": group, "item": item}
    named = {option: name for option, name in names.items() if name is not None}

    def copy() -> FilterResult:
        with progress.step(f"filtering {claims}"):
            columns = read_columns(claims, named)
            groups, items = (columns.get(name or "") for name in (group, item))
            rng = np.random.default_rng()  # for a threshold drawn per item
            kept = filter_claims(selection, columns[score], groups=groups, items=items, rng=rng)
            _write(claims, out, kept, mark, force)
        if len(kept) and not kept.any():
            warn_user(
                f"nothing is kept of {counted(len(kept), 'claim')}: no score in {claims} reaches "
                "the threshold. Are these the scores that were calibrated?",
                PromiseWarning,
            )
        parts = by_part(selection, columns[score], groups)
        listed = [(name, kept_doubt(part, kept[own])) for name, part, own in parts if part.useful]
        doubts = [f"{name}{doubt}" for name, doubt in listed if doubt is not None]
        return FilterResult(selection, len(kept), int(kept.sum()), doubts, out)

    result = run_interruptibly(copy)
    show(result, as_json=as_json)
    if result.doubts:
        raise typer.Exit(NOTHING_PASSES)


def _write(source: str, target: Path, kept: Booleans, mark: str | None, overwrite: bool) -> None:
    """Copy the rows that are kept, batch by batch, all of them or none; of CSV files as text."""
    import pyarrow as pa
    from pyarrow import csv, dataset, parquet

    is_csv = source.endswith(".csv")
    if target.suffix != (".csv" if is_csv else ".parquet"):
        raise ValueError(
            f"--out must be a file of the same kind as {source}, got {target}: a CSV file is "
            "copied as text"
        )
    data = open_claims(source)
    if is_csv:
        as_text = csv.ConvertOptions(column_types=dict.fromkeys(data.schema.names, pa.string()))
        data = dataset.dataset(source, format=dataset.CsvFileFormat(convert_options=as_text))
    schema = data.schema
    if mark is not None:
        if mark in schema.names:
            raise ValueError(f"--mark: {source} has a column {mark!r} already")
        schema = schema.append(pa.field(mark, pa.bool_()))
    row = 0
    with files.replacing(target, overwrite=overwrite) as temporary:
        make = csv.CSVWriter if is_csv else parquet.ParquetWriter
        with make(temporary, schema) as writer:
            for batch in data.to_batches():
                mask = pa.array(kept[row : row + batch.num_rows])
                row += batch.num_rows
                if mark is None:
                    writer.write_batch(batch.filter(mask))
                else:
                    columns = [*batch.columns, mask]
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        if row != len(kept):
            raise ValueError(
                f"{source} was changed while it was read: {row} rows, {len(kept)} before"
            )
