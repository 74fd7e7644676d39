"""`tether threshold` and `tether filter`: a threshold for scored claims, and claims it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np

import tether
from tether._core import files, progress, validate
from tether._core.arrays import Booleans, Floats
from tether._core.words import Description, counted
from tether.cli.tables import ANY_FILE, open_dataset, read_columns
from tether.cli.terminal import (
    NOTHING_PASSES,
    SAVING,
    TARGET,
    JsonOption,
    Options,
    Output,
    argument,
    command,
    print_line,
    print_note,
    show,
    target,
)
from tether.thresholds import Claims, FalseAmongShown, Selection, filter_claims
from tether.thresholds.filter import by_part, kept_doubt, why_not_useful
from tether.thresholds.losses import CLAIM_LOSSES, FALSE_AMONG_SHOWN
from tether.thresholds.methods import METHODS
from tether.thresholds.select import INVERTED, ONE_LABEL

ALL_METHODS = "all"
LOSSES = (*CLAIM_LOSSES, FALSE_AMONG_SHOWN)

ClaimsArgument = Annotated[str, argument(f"The claims, one row each: {ANY_FILE}.")]
THRESHOLD: Options = TARGET | {
    "score": (str, ..., "The column of scores: confidence in each claim."),
    "label": (str, ..., "The column of labels: whether each claim is true."),
    "item": (str, ..., "The column that names the item of each claim."),
    "group": (str | None, None, "The column of groups, for one threshold per group."),
    "method": (
        str | None,
        None,
        f"One of {', '.join(METHODS)}; all compares them. (default: chain for --promise, gcrc for "
        "--alpha)",
    ),
    "loss": (str, "fdr", f"One of {', '.join(LOSSES)}."),
    "most_claims": (int | None, None, f"The most claims in an item (for {FALSE_AMONG_SHOWN})."),
    "thresholds": (str | None, None, "LOWEST:HIGHEST:COUNT, or a list. (default: every score)"),
}


@command(given=THRESHOLD, saving=SAVING)
def threshold(claims: ClaimsArgument, given: Any, saving: Any, as_json: JsonOption = False) -> int:
    """Choose the threshold above which claims are kept, with a finite-sample guarantee.

    The exit code is 3 if no threshold has a useful promise (with groups, in any of them), if
    labels or scores look inverted, or if all labels are the same.
    """
    saved, confidence = Output(**saving, plot=given["plot"]), given["confidence"]
    problems = saved.problems(claims)
    asked = target(given, problems)
    chosen = given["method"] or ("chain" if "promise" in asked else "gcrc")
    validate.choice("--method", chosen, (*METHODS, ALL_METHODS))
    if chosen == ALL_METHODS and saved.out is not None:
        problems.append("--out saves one selection: name one --method, not all")
    if confidence is not None and chosen not in ("ltt", ALL_METHODS):
        problems.append(f"--confidence is for --method ltt, got --method {chosen}")
    if given["score"] == given["label"]:
        problems.append(f"--score and --label both name {given['score']!r}")
    names = {name: given[name] for name in ("score", "label", "item", "group") if given[name]}
    columns = read_columns(claims, names, problems)
    (level,) = asked.values()
    options: dict[str, Any] = {"alpha": level}
    options["loss"] = _loss(given["loss"], level, given["most_claims"])
    if given["thresholds"] is not None:
        options["thresholds"] = threshold_grid(given["thresholds"])
    named = {"scores": given["score"], "supported": given["label"], "items": given["item"]}
    scored = Claims.from_frame(columns, **named, groups=given["group"])
    if given["group"] is not None:
        options["groups"] = scored.groups
    with progress.step(f"choosing a threshold for {counted(len(scored.scores), 'claim')}"):
        sure = {} if confidence is None else {"confidence": confidence}
        found = {
            name: METHODS[name](scored, **options, **(sure if name == "ltt" else {}))
            for name in (METHODS if chosen == ALL_METHODS else [chosen])
        }
    if chosen == ALL_METHODS and as_json:
        content = {name: each.to_dict() | {"useful": each.useful} for name, each in found.items()}
        show({"methods": content}, as_json=True)
    else:
        result: Any = tether.compare(found) if chosen == ALL_METHODS else found[chosen]
        saved.show(result, as_json=as_json)
        if chosen != ALL_METHODS and not (result.useful or as_json):
            parts = {name: part for name, part in result.groups.items() if not part.useful}
            for name, part in (parts or {"": result}).items():
                where = f"{name}: " if name else ""
                print_line(f"  no useful promise: {where}{why_not_useful(part)}")
    warnings = next(iter(found.values())).warnings
    served = any(each.serves for each in found.values())
    doubtful = any(each.startswith((INVERTED, ONE_LABEL)) for each in warnings)
    return 0 if served and not doubtful else NOTHING_PASSES


def _loss(loss: str, level: float, most_claims: int | None) -> str | FalseAmongShown:
    """The loss, made with the level and the number of claims where it is about what is shown."""
    validate.choice("--loss", loss, LOSSES)
    if (loss == FALSE_AMONG_SHOWN) != (most_claims is not None):
        given = f"got --loss {loss} and --most-claims {most_claims}"
        raise ValueError(f"--most-claims goes with --loss {FALSE_AMONG_SHOWN}: {given}")
    return loss if most_claims is None else FalseAmongShown(level, most_claims)


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


FILTER: Options = {
    "threshold": (Path, ..., "The selection that `tether threshold --out` saved."),
    "score": (str, ..., "The column of scores: confidence in each claim."),
    "out": (Path, ..., "The file for the claims that are kept."),
    "group": (str | None, None, "The column of groups, where each has a threshold."),
    "item": (str | None, None, "The column that names the item of each claim."),
    "mark": (str | None, None, "Keep all rows, and add this column that says which are kept."),
    "force": (bool, False, "Replace an existing file."),
}


@command(given=FILTER)
def filter_(claims: ClaimsArgument, given: Any, as_json: JsonOption = False) -> int:
    """Keep the claims whose score reaches a threshold that was found.

    The promise is for complete items: every claim of an item must be there. Nothing is written and
    the exit code is 3 if the selection has no useful promise; nothing is kept of groups without
    one. The exit code is 3 too if so much less or more is kept than in the calibration that these
    may be other scores.
    """
    threshold, out, score = (given[each] for each in ("threshold", "out", "score"))
    files.require_target(out, claims, threshold, overwrite=given["force"])
    selection = Selection.load(threshold)
    if not selection.serves:
        why = "in none of the groups" if selection.groups else why_not_useful(selection)
        again = f"with more items, another method or a larger {selection.rule}"
        message = f"{threshold}: {why}, so nothing is written: find a threshold again, {again}"
        print_note("no useful promise:", "bold red", message)
        return NOTHING_PASSES
    names = {name: given[name] for name in ("score", "group", "item") if given[name]}
    columns = read_columns(claims, names)
    groups, items = (columns.get(given[name] or "") for name in ("group", "item"))
    rng = np.random.default_rng()  # for a threshold drawn per item
    with progress.step(f"filtering {claims}"):
        kept = filter_claims(selection, columns[score], groups=groups, items=items, rng=rng)
        _write(claims, out, kept, given["mark"], given["force"])
    parts = by_part(selection, columns[score], groups)
    listed = [(name, kept_doubt(part, kept[own])) for name, part, own in parts if part.useful]
    doubts = [f"{name}{doubt}" for name, doubt in listed if doubt is not None]
    _show_filtered(selection, kept, doubts, out, as_json)
    return NOTHING_PASSES if doubts else 0


def _show_filtered(
    found: Selection, kept: Booleans, doubts: list[str], out: Path, as_json: bool
) -> None:
    """Print how many claims were kept, by which threshold, and what is promised of them."""
    count, share = int(kept.sum()), float(kept.mean()) if len(kept) else 0.0
    if as_json:
        thresholds = {name: each.threshold for name, each in found.groups.items()}
        content: dict[str, Any] = {"read": len(kept), "kept": count, "out": str(out)}
        content |= {"threshold": thresholds or found.threshold, "loss": found.loss}
        content |= {"promise": found.promise, "refused_groups": list(found.refused_groups)}
        content["warnings"] = doubts
        return show(content, as_json=True)
    facts = [("threshold", f"{found.threshold:.6g}"), ("promise", found.statement)]
    if found.groups:
        facts = [(each, part.statement) for each, part in found.groups.items() if part.useful]
    there = "" if found.kept is None else f" here, {found.kept.share:.1%} in the calibration"
    told = f"kept {count:,} of {counted(len(kept), 'claim')} ({share:.1%}{there})"
    print_line(Description(told, facts=tuple(facts), warnings=tuple(doubts)).text())
    print_line(f"  saved in {out}")


def _write(source: str, target: Path, kept: Booleans, mark: str | None, overwrite: bool) -> None:
    """Copy the rows that are kept, all of them or none; CSV as text, anything else as Parquet."""
    import pyarrow as pa
    from pyarrow import csv, dataset, parquet

    is_csv = source.endswith(".csv")
    if target.suffix != (".csv" if is_csv else ".parquet"):
        raise ValueError(f"--out must end in {'.csv' if is_csv else '.parquet'}, got {target}")
    data = open_dataset(source)
    if is_csv:
        as_text = csv.ConvertOptions(column_types=dict.fromkeys(data.schema.names, pa.string()))
        data = dataset.dataset(source, format=dataset.CsvFileFormat(convert_options=as_text))
    table = data.to_table()
    if table.num_rows != len(kept):
        raise ValueError(f"{source} changed while it was read")
    if mark is None:
        table = table.filter(pa.array(kept))
    elif mark in table.column_names:
        raise ValueError(f"--mark: {source} already has a column {mark!r}")
    else:
        table = table.append_column(mark, pa.array(kept))
    with files.replacing(target, overwrite=overwrite) as temporary:
        (csv.write_csv if is_csv else parquet.write_table)(table, temporary)
