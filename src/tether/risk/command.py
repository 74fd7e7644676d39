"""`tether gcrc`: a threshold for a table of claims, from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from tether import _check
from tether.risk.claims import Claims
from tether.risk.crc import crc
from tether.risk.gcrc import gcrc as run_gcrc
from tether.risk.losses import CLAIM_LOSSES
from tether.risk.ltt import ltt
from tether.risk.monotonized import monotonized_crc
from tether.risk.selection import Selection

METHODS: dict[str, Callable[..., Selection]] = {
    "gcrc": run_gcrc,
    "crc": crc,
    "monotonized_crc": monotonized_crc,
    "ltt": ltt,
}


def gcrc(
    claims: Annotated[Path, typer.Argument(help="Table of claims, parquet or CSV, one a row.")],
    alpha: Annotated[float, typer.Option(help="The tolerated expected loss.")],
    score: Annotated[str, typer.Option(help="Column of scores: confidence in a claim.")],
    label: Annotated[str, typer.Option(help="Column of labels: whether a claim is true.")],
    item: Annotated[str, typer.Option(help="Column that names the item of a claim.")],
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "gcrc",
    loss: Annotated[str, typer.Option(help=f"One of {', '.join(CLAIM_LOSSES)}.")] = "fdr",
    delta: Annotated[float | None, typer.Option(help="Chance of failure (ltt only).")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the selection here, as JSON.")] = None,
) -> None:
    """Choose the threshold above which claims are kept, with a finite-sample guarantee."""
    try:
        found = _select(claims, alpha, score, label, item, method, loss, delta)
        if out is not None:
            found.save(out)
    except (OSError, TypeError, ValueError) as error:
        message = " ".join(str(error).split())
        Console(stderr=True, highlight=False, soft_wrap=True).print(message, markup=False)
        raise typer.Exit(2) from error
    Console(highlight=False, soft_wrap=True).print(str(found), markup=False)


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
    _check.choice("--method", method, METHODS)
    _check.choice("--loss", loss, CLAIM_LOSSES)
    if delta is not None and method != "ltt":
        raise ValueError(f"--delta is for --method ltt, got --method {method}")
    table = _read(path, (score, label, item))
    claims = Claims.from_table(table[score], table[label], table[item])
    options: dict[str, Any] = {} if delta is None else {"delta": delta}
    return METHODS[method](claims, alpha=alpha, loss=loss, **options)


def _read(path: Path, columns: tuple[str, ...]) -> dict[str, Any]:
    """The columns of a parquet or CSV file as arrays, none of them with holes."""
    import pyarrow
    from pyarrow import csv, parquet

    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    try:
        table = csv.read_csv(path) if path.suffix == ".csv" else parquet.ParquetFile(path).read()
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as parquet or CSV: {error}") from error
    found = {}
    for name in columns:
        if name not in table.column_names:
            there = ", ".join(map(repr, table.column_names))
            raise ValueError(f"{path} has no column {name!r}; it has {there}")
        column = table.column(name)
        if column.null_count:
            raise ValueError(f"column {name!r} has {column.null_count} empty value(s)")
        found[name] = np.asarray(column.to_pylist())
    return found
