"""`tether threshold`: a threshold for a table of scored claims, or all methods side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tether._core import progress, validate
from tether._core.counted import counted
from tether._core.types import Floats
from tether.cli.terminal import (
    NOTHING_PASSES,
    AlphaOption,
    ForceOption,
    JsonOption,
    KeyOption,
    Output,
    PromiseOption,
    print_line,
    report_errors,
    require_one_target,
    run_interruptibly,
    show,
    show_and_save,
)
from tether.thresholds import Claims, FalseAmongShown, Selection
from tether.thresholds.checks import INVERTED, ONE_LABEL
from tether.thresholds.filter import by_part, keep, why_not_useful
from tether.thresholds.losses import CLAIM_LOSSES, FALSE_AMONG_SHOWN
from tether.thresholds.methods import METHODS

ALL_METHODS = "all"
LOSSES = (*CLAIM_LOSSES, FALSE_AMONG_SHOWN)


@report_errors
def threshold(
    claims: Annotated[
        str,
        typer.Argument(
            help="The claims, one row each: a Parquet or CSV file, or a folder, glob or address "
            "(s3://bucket/claims) of Parquet."
        ),
    ],
    score: Annotated[str, typer.Option(help="The column of scores: confidence in each claim.")],
    label: Annotated[str, typer.Option(help="The column of labels: whether each claim is true.")],
    item: Annotated[str, typer.Option(help="The column that names the item of each claim.")],
    promise: PromiseOption = None,
    alpha: AlphaOption = None,
    group: Annotated[
        str | None,
        typer.Option(help="The column of groups, for one threshold per group. (default: none)"),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(METHODS)}; all compares them. (default: chain for --promise, "
            "gcrc for --alpha)"
        ),
    ] = None,
    loss: Annotated[str, typer.Option(help=f"One of {', '.join(LOSSES)}.")] = "fdr",
    most_claims: Annotated[
        int | None,
        typer.Option(help=f"The largest number of claims of an item (for {FALSE_AMONG_SHOWN})."),
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option(
            help="Candidates LOWEST:HIGHEST:COUNT, such as 0.4:0.9:51, or a list 0.9,0.99,0.999. "
            "(default: every score)"
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="The probability with which the promise holds (ltt only). (default: 0.9)"
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Save the selection as JSON.")] = None,
    force: ForceOption = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the threshold above which claims are kept, with a finite-sample guarantee.

    Exit codes: 0 if the promise is useful, 2 for invalid input, 3 if no threshold passes, none but
    one that keeps next to nothing, or the stated promise is of no use, such as that of crc where
    losses are not monotone; with groups, if this is so in all of them. It is 3 too if labels or
    scores look inverted, or all labels are the same.
    """
    saved = Output(out, force, key)
    saved.check(Path(claims))
    require_one_target(alpha, promise)
    chosen = method or ("gcrc" if promise is None else "chain")
    validate.choice("--method", chosen, (*METHODS, ALL_METHODS))
    level = alpha if promise is None else promise
    options: dict[str, Any] = {"alpha": level, "loss": _loss(loss, level, most_claims)}
    if thresholds is not None:
        options["thresholds"] = threshold_grid(thresholds)
    if chosen == ALL_METHODS and out is not None:
        raise ValueError("--out saves one selection: name one --method, not all")
    if confidence is not None and chosen not in ("ltt", ALL_METHODS):
        raise ValueError(f"--confidence is for --method ltt, got --method {chosen}")
    if score == label:
        raise ValueError(
            f"--score and --label both name {score!r}: a score is the confidence in a claim before "
            "it is known whether it is true"
        )

    def find() -> dict[str, Selection] | MethodComparison:
        names = {"score": score, "label": label, "item": item}
        columns = read_columns(claims, names if group is None else {**names, "group": group})
        scored = Claims.from_frame(columns, scores=score, supported=label, items=item, groups=group)
        if group is not None:
            options["groups"] = scored.groups
        with progress.step(f"choosing a threshold for {counted(len(scored.scores), 'claim')}"):
            found = {
                name: _select(name, scored, confidence, options)
                for name in (METHODS if chosen == ALL_METHODS else [chosen])
            }
        return found if chosen != ALL_METHODS else MethodComparison.of(found, scored)

    result = run_interruptibly(find)
    if isinstance(result, MethodComparison):
        show(result, as_json=as_json)
        found = result.selections
    else:
        found = result
        show_and_save(found[chosen], saved, as_json=as_json)
        if not (found[chosen].useful or as_json):
            print_line("\n".join(_advice(found[chosen])))
    served = any(each.serves for each in found.values())
    warnings = next(iter(found.values())).warnings
    if not served or any(each.startswith((INVERTED, ONE_LABEL)) for each in warnings):
        raise typer.Exit(NOTHING_PASSES)


def _select(name: str, scored: Claims, confidence: float | None, options: Any) -> Selection:
    own = {"confidence": confidence} if name == "ltt" and confidence is not None else {}
    return METHODS[name](scored, **options, **own)


def _loss(loss: str, level: float | None, most_claims: int | None) -> str | FalseAmongShown:
    """The loss, made with the level and the number of claims where it is about what is shown."""
    validate.choice("--loss", loss, LOSSES)
    if (loss == FALSE_AMONG_SHOWN) != (most_claims is not None):
        raise ValueError(
            f"--most-claims, the largest number of claims of an item, goes with --loss "
            f"{FALSE_AMONG_SHOWN}: got --loss {loss} and --most-claims {most_claims}"
        )
    if most_claims is None:
        return loss
    assert level is not None
    return FalseAmongShown(level, most_claims)


def threshold_grid(text: str) -> Floats:
    """Evenly spaced thresholds from LOWEST:HIGHEST:COUNT, or those that are listed.

    >>> threshold_grid("0.5:0.9:3"), threshold_grid("0.9,0.99")
    (array([0.5, 0.7, 0.9]), array([0.9 , 0.99]))
    """
    try:
        if "," in text:
            grid = np.array([float(part) for part in text.split(",")])
        else:
            low, high, count = text.split(":")
            grid = np.linspace(float(low), float(high), int(count))
    except ValueError:
        grid = np.zeros(0)
    if len(grid) < 2 or not np.isfinite(grid).all() or (np.diff(grid) <= 0).any():
        raise ValueError(
            "--thresholds must be LOWEST:HIGHEST:COUNT, such as 0.4:0.9:51, or numbers in "
            f"increasing order, such as 0.9,0.99,0.999, got {text!r}"
        )
    return grid


def read_columns(source: str, names: dict[str, str]) -> dict[str, Any]:
    """Some columns of a CSV file or of Parquet files, by name, none of them with missing values."""
    data = open_claims(source)
    for option, name in names.items():
        if data.schema.names.count(name) != 1:
            raise ValueError(
                f"--{option}: {source} has {data.schema.names.count(name)} columns {name!r}; its "
                f"columns are {data.schema.names}"
            )
    table = data.to_table(columns=list(dict.fromkeys(names.values())))
    for option, name in names.items():
        if missing := table[name].null_count:
            raise ValueError(
                f"--{option}: column {name!r} has {missing} missing value(s): fill them in, or "
                "leave out all rows of the items that have one (not these rows alone: the promise "
                "is for complete items)"
            )
    return {name: table[name].to_numpy() for name in table.column_names}


def open_claims(source: str) -> Any:
    """A dataset of Arrow: a CSV file, or Parquet files."""
    import pyarrow as pa
    from pyarrow import dataset

    from tether.scan.files import find_files

    try:
        if source.endswith(".csv"):
            return dataset.dataset(source, format="csv")
        filesystem, paths = find_files(source)
        return dataset.dataset(paths, filesystem=filesystem, format="parquet")
    except pa.ArrowInvalid as error:
        raise ValueError(f"{source} cannot be read: {error}") from error


def _advice(found: Selection) -> Iterable[str]:
    """Why there is no useful promise."""
    parts = {f"{name}: ": part for name, part in found.groups.items() if not part.useful}
    for name, part in (parts or {"": found}).items():
        yield f"  no useful promise: {name}{why_not_useful(part)}"


@dataclass(frozen=True)
class MethodComparison:
    """What each method selects, and the shares of all and of true claims that it keeps."""

    selections: dict[str, Selection]
    shares: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, found: dict[str, Selection], scored: Claims) -> MethodComparison:
        """Count what each selection keeps of the claims that it was calibrated on."""
        shares, groups = {}, None
        if next(iter(found.values())).groups:
            assert scored.items is not None
            groups = np.array([str(scored.groups[name]) for name in scored.items.tolist()])
            groups = groups[scored.owner]
        for name, each in found.items():
            kept = np.zeros(len(scored.scores), dtype=np.bool_)
            for _, part, own in by_part(each, scored.scores, groups):
                kept[own] = keep(part, scored.scores[own])
            true = kept[scored.supported]
            shares[name] = float(kept.mean()), float(true.mean()) if len(true) else 0.0
        return cls(found, shares)

    def to_dict(self) -> dict[str, Any]:
        """One entry per method, with the shares that are kept."""
        return {
            "methods": {
                name: {**found.to_dict(), "useful": found.useful}
                | dict(zip(("kept", "true_kept"), self.shares[name], strict=True))
                for name, found in self.selections.items()
            }
        }

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("method", "threshold", "promise", "kept", "of true", "")]
        rows += [self._row(name, found) for name, found in self.selections.items()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        notes = [
            "kept: the share of these claims whose score reaches the threshold; of true: the same "
            "among true claims",
            "a promise holds for a method that was chosen without these figures; to choose by "
            "them, calibrate the chosen one on other claims",
        ]
        return "\n".join([*lines, "", *notes])

    def _row(self, name: str, found: Selection) -> tuple[str, ...]:
        if not found.serves:
            why = "in no group" if found.groups else why_not_useful(found)
            return name, "-", "-", "-", "-", f"no useful promise: {why}"
        served = [each for each in found.groups.values() if each.useful] or [found]
        ends = sorted({f"{each.threshold:.4g}" for each in served}, key=float)
        sure = found.confidence
        notes = ["on average" if sure is None else f"with probability {sure:g}"]
        if refused := found.refused_groups:
            notes.append(f"refuses {', '.join(refused)}")
        kept, true = self.shares[name]
        promised = max(each.promise for each in served)
        shown = " to ".join(dict.fromkeys((ends[0], ends[-1])))
        return name, shown, f"{promised:.4g}", f"{kept:.1%}", f"{true:.1%}", "; ".join(notes)
