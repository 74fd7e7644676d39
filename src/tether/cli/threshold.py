"""`tether threshold`: a threshold for a table of scored claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tether._core import frames, validate
from tether.cli.terminal import (
    NOTHING_PASSES,
    JsonOption,
    read_table,
    report_errors,
    show_and_save,
)
from tether.risk import Claims, Selection, crc, gcrc, ltt, monotonized_crc
from tether.risk.claim_losses import CLAIM_LOSSES

METHODS: dict[str, Callable[..., Selection]] = {
    "gcrc": gcrc,
    "crc": crc,
    "monotonized_crc": monotonized_crc,
    "ltt": ltt,
}


@report_errors
def threshold(
    claims: Annotated[
        Path, typer.Argument(help="The claims: a Parquet or CSV file with one row per claim.")
    ],
    alpha: Annotated[float, typer.Option(help="The tolerated expected loss.")],
    score: Annotated[str, typer.Option(help="The column of scores: confidence in each claim.")],
    label: Annotated[str, typer.Option(help="The column of labels: whether each claim is true.")],
    item: Annotated[str, typer.Option(help="The column that names the item of each claim.")],
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "gcrc",
    loss: Annotated[str, typer.Option(help=f"One of {', '.join(CLAIM_LOSSES)}.")] = "fdr",
    confidence: Annotated[
        float | None,
        typer.Option(
            help="The probability with which the promise holds (ltt only). (default: 0.9)"
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Save the selection as JSON.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the threshold above which claims are kept, with a finite-sample guarantee."""
    validate.choice("--method", method, METHODS)
    validate.choice("--loss", loss, CLAIM_LOSSES)
    options: dict[str, Any] = {}
    if confidence is not None:
        if method != "ltt":
            raise ValueError(f"--confidence is for --method ltt, got --method {method}")
        options["confidence"] = confidence
    columns = _columns(claims, score=score, label=label, item=item)
    scored = Claims.from_table(columns["score"], columns["label"], columns["item"])
    selection = METHODS[method](scored, alpha=alpha, loss=loss, **options)
    show_and_save(selection, as_json=as_json, out=out)
    if not selection.exists:
        raise typer.Exit(NOTHING_PASSES)


def _columns(path: Path, **names: str) -> dict[str, Any]:
    """Columns of a Parquet or CSV file as arrays, none of them with missing values."""
    table = read_table(path)
    columns = {option: frames.column(table, option, name) for option, name in names.items()}
    for name in names.values():
        if missing := table.column(name).null_count:
            raise ValueError(f"column {name!r} has {missing} missing value(s)")
    return columns
