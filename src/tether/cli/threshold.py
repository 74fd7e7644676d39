"""`tether gcrc`: a threshold for a table of claims, from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tether._core import frames, validate
from tether.cli.terminal import NOTHING_PASSES, read_table, show, told
from tether.risk.claim_losses import CLAIM_LOSSES
from tether.risk.claims import Claims
from tether.risk.learn_then_test import ltt
from tether.risk.methods import crc, monotonized_crc
from tether.risk.methods import gcrc as run_gcrc
from tether.risk.selection import Selection

METHODS: dict[str, Callable[..., Selection]] = {
    "gcrc": run_gcrc,
    "crc": crc,
    "monotonized_crc": monotonized_crc,
    "ltt": ltt,
}


@told
def gcrc(
    claims: Annotated[Path, typer.Argument(help="Table of claims, parquet or CSV, one a row.")],
    alpha: Annotated[float, typer.Option(help="The tolerated expected loss.")],
    score: Annotated[str, typer.Option(help="Column of scores: confidence in a claim.")],
    label: Annotated[str, typer.Option(help="Column of labels: whether a claim is true.")],
    item: Annotated[str, typer.Option(help="Column that names the item of a claim.")],
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "gcrc",
    loss: Annotated[str, typer.Option(help=f"One of {', '.join(CLAIM_LOSSES)}.")] = "fdr",
    delta: Annotated[float | None, typer.Option(help="Chance of failure (ltt only).")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the selection as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Choose the threshold above which claims are kept, with a finite-sample guarantee."""
    found = _select(claims, alpha, score, label, item, method, loss, delta)
    show(found, as_json=as_json, out=out)
    if not found.exists:
        raise typer.Exit(NOTHING_PASSES)


def _select(
    path: Path,
    alpha: float,
    score: str,
    label: str,
    item: str,
    method: str,
    loss: str,
    delta: float | None,
) -> Selection:
    validate.choice("--method", method, METHODS)
    validate.choice("--loss", loss, CLAIM_LOSSES)
    if delta is not None and method != "ltt":
        raise ValueError(f"--delta is for --method ltt, got --method {method}")
    table = _columns(path, (score, label, item))
    claims = Claims.from_table(table[score], table[label], table[item])
    options: dict[str, Any] = {} if delta is None else {"delta": delta}
    return METHODS[method](claims, alpha=alpha, loss=loss, **options)


def _columns(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Columns of a parquet or csv file as arrays, none of them with holes."""
    table = read_table(path)
    found = {
        name: frames.column(table, option, name)
        for option, name in zip(("score", "label", "item"), names, strict=True)
    }
    for name in names:
        if holes := table.column(name).null_count:
            raise ValueError(f"column {name!r} has {holes} empty value(s)")
    return found
