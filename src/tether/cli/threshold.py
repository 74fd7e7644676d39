"""`tether threshold`: a threshold for a table of scored claims."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

import tether
from tether._core import frames, progress, validate
from tether._core.counted import counted
from tether.cli.column_arrays import MissingValuesError
from tether.cli.compare_methods import MethodComparison, compare_methods, select_by
from tether.cli.label_column import (
    accepted_labels,
    require_labels,
    require_score_numbers,
    words_as_labels,
)
from tether.cli.memory_limit import TooManyRowsError
from tether.cli.scanned_paths import (
    WhereOption,
    is_in_parts,
    location,
    require_parquet,
    row_condition,
)
from tether.cli.shown_share_options import LOSSES, chosen_loss, threshold_grid
from tether.cli.table_file import Wanted, read_columns
from tether.cli.terminal import (
    NOTHING_PASSES,
    AlphaOption,
    ForceOption,
    JsonOption,
    KeyOption,
    MaxRowsOption,
    Output,
    PromiseOption,
    print_line,
    report_errors,
    require_one_target,
    run_interruptibly,
    show,
    show_and_save,
)
from tether.risk import Claims, Selection
from tether.risk.claim_losses import FALSE_AMONG_SHOWN
from tether.risk.methods_by_name import METHODS
from tether.risk.scanned_claims import ScannedClaims
from tether.risk.score_direction import INVERTED, ONE_LABEL
from tether.risk.shown_room import items_for_room

ALL_METHODS = "all"
NOTHING_KEPT = (
    "the threshold keeps none of these claims, so the promise is kept by showing nothing: a larger "
    "--promise, more items, or scores that tell true claims from false ones are needed"
)


@report_errors
def threshold(
    claims: Annotated[
        Path,
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
        str, typer.Option(help=f"One of {', '.join(METHODS)}; all compares them.")
    ] = "gcrc",
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
    where: WhereOption = None,
    max_rows: MaxRowsOption = None,
    out: Annotated[Path | None, typer.Option(help="Save the selection as JSON.")] = None,
    force: ForceOption = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the threshold above which claims are kept, with a finite-sample guarantee.

    Exit codes: 0 if the promise is useful, 2 for invalid input, 3 if no threshold passes, none but
    one that keeps nothing, or the stated promise is of no use, such as that of crc where losses are
    not monotone; with groups, if this is so in all of them. It is 3 too if labels or scores look
    inverted, or all labels are the same.
    """
    saved = Output(out, force, key)
    saved.check(claims)
    require_one_target(alpha, promise)
    validate.choice("--method", method, (*METHODS, ALL_METHODS))
    validate.choice("--loss", loss, LOSSES)
    options: dict[str, Any] = {"loss": chosen_loss(loss, promise, most_claims, thresholds)}
    if thresholds is not None:
        options["thresholds"] = threshold_grid(thresholds)
    compares = method == ALL_METHODS
    if compares and out is not None:
        raise ValueError("--out saves one selection: name one --method, not all")
    if confidence is not None and method not in ("ltt", ALL_METHODS):
        raise ValueError(f"--confidence is for --method ltt, got --method {method}")
    names = {"score": score, "label": label, "item": item}
    if group is not None:
        names["group"] = group
    if score == label:
        raise ValueError(
            f"--score and --label both name {score!r}: a score is the confidence in a claim before "
            "it is known whether it is true"
        )
    options["alpha" if promise is None else "promise"] = alpha if promise is None else promise

    def select() -> Selection | MethodComparison:
        columns = None if is_in_parts(claims, where) else _columns(claims, names, max_rows)
        scored: Claims | ScannedClaims
        if columns is None:
            rows, scored = "claims in parts", _scanned(claims, names, where)
        else:
            rows = counted(len(columns["score"]), "claim")
            scored = Claims.from_table(
                columns["score"], columns["label"], columns["item"], columns.get("group")
            )
        groups = None if group is None else scored.groups
        with progress.step(f"choosing a threshold for {rows}"):
            if not compares:
                return select_by(method, scored, groups, confidence, options)
            return compare_methods(METHODS, scored, groups, confidence, options)

    selection = run_interruptibly(select)
    if isinstance(selection, MethodComparison):
        show(selection, as_json=as_json)
    else:
        show_and_save(selection, saved, as_json=as_json)
    if isinstance(selection, Selection):
        if not (selection.useful or as_json):
            print_line("\n".join(_advice(selection)))
        served, warnings = selection.serves, selection.warnings
    else:
        served = selection.useful
        warnings = next(iter(selection.selections.values())).warnings
    if not served or any(each.startswith((INVERTED, ONE_LABEL)) for each in warnings):
        raise typer.Exit(NOTHING_PASSES)


def _scanned(path: Path, names: dict[str, str], where: list[str] | None) -> ScannedClaims:
    """Claims in several files, or in one that does not fit into memory."""
    require_parquet(path)
    _require_no_text(names["label"], path)
    return Claims.scan(
        location(path),
        scores=names["score"],
        supported=names["label"],
        items=names["item"],
        groups=names.get("group"),
        where=row_condition(where, (names["score"], names["label"])),
    )


def _advice(selection: Selection) -> list[str]:
    """What would help where there is no useful promise."""
    parts = {f"{name}: ": part for name, part in selection.groups.items() if not part.useful}
    lines = []
    for name, part in (parts or {"": selection}).items():
        if part.method == "CRC" and not part.monotone:
            help_with = (
                "crc promises nothing where losses are not monotone, however many items there are: "
                "use --method gcrc, monotonized_crc or ltt"
            )
        elif part.exists and part.keeps_nothing:
            help_with = NOTHING_KEPT
        elif part.exists:
            help_with = "more items make it more stable; monotonized_crc and ltt need no stability"
        elif part.method != "LTT":
            help_with = _items_needed(part)
        else:
            help_with = "more items are needed"
        lines.append(f"  no useful promise: {name}{help_with}")
    return lines


def _items_needed(part: Selection) -> str:
    """How many items would be needed before any threshold passes."""
    safe_risk = 0.0 if math.isnan(part.safe_loss) else part.safe_loss
    if part.loss == FALSE_AMONG_SHOWN:
        needed = items_for_room(part.tolerated, safe_risk)
    else:
        try:
            planned = tether.plan(alpha=part.tolerated, bound=part.bound, safe_risk=safe_risk)
        except ValueError:  # so much as a float cannot hold
            return "more items are needed than can be planned for"
        needed = math.inf if math.isinf(planned.rows_needed) else planned.rows_likely
    if math.isinf(needed):
        return "no number of items helps while the safest threshold costs as much as is tolerated"
    if needed <= part.n_items:
        given = counted(part.n_items, "item")
        return f"more than {given} are needed before a threshold passes"
    return f"about {counted(int(needed), 'item')} are needed before a threshold passes"


def _columns(path: Path, names: dict[str, str], max_rows: int | None) -> dict[str, Any] | None:
    """Columns of a file as arrays, none of them with missing values; None if they do not fit."""
    wanted = Wanted(names.values(), numbers={names["score"]})
    try:
        table = read_columns(path, wanted, max_rows)
    except MissingValuesError as error:
        option = next(option for option, name in names.items() if name == error.column)
        raise ValueError(_missing(option, error.column, error.count)) from error
    except TooManyRowsError:
        if path.suffix != ".parquet":
            raise
        return None
    columns = {option: frames.column(table, option, name) for option, name in names.items()}
    for option, name in names.items():
        if missing := table.missing[name]:
            raise ValueError(_missing(option, name, missing))
    require_score_numbers(names["score"], columns["score"])
    require_labels(names["label"], columns["label"])
    return columns


def _missing(option: str, name: str, count: int) -> str:
    return (
        f"--{option}: column {name!r} has {count} missing value(s): fill them in, or leave out all "
        "rows of the items that have one (not these rows alone: the promise is for complete items)"
    )


def _require_no_text(name: str, path: Path) -> None:
    """The same for files that are read in parts, by the type of the column in the first."""
    from pyarrow import types

    from tether.scan.data_files import find_files

    schema = find_files(location(path))[0].open().schema_arrow
    kind = schema.field(name).type if schema.names.count(name) == 1 else None
    if kind is not None and (types.is_string(kind) or types.is_large_string(kind)):
        raise ValueError(f"{accepted_labels(name)}, got text: {words_as_labels(name)}")
