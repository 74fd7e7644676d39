"""What every command shares: reading tables, showing results, telling errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa
import typer
from pyarrow import csv, parquet
from rich.console import Console
from rich.markup import escape

from tether._core import records

BAD_INPUT = 2
NOTHING_PASSES = 3
ALARM = 4
"""Exit codes beside 0."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def told(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Turn an error about input into one line and exit code 2."""

    @wraps(command)
    def guarded(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            return command(*arguments, **options)
        except (ValueError, TypeError, OSError, ImportError) as error:
            message = escape(" ".join(str(error).split()))
            Console(stderr=True).print(
                f"[bold red]error:[/] {message}", highlight=False, soft_wrap=True
            )
            raise typer.Exit(BAD_INPUT) from error

    return guarded


def read_table(path: Path) -> Any:
    """A parquet or csv file as an Arrow table."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    readers = {".parquet": parquet.read_table, ".csv": csv.read_csv, ".gz": csv.read_csv}
    if path.suffix not in readers:
        raise ValueError(f"{path} must end in .parquet, .csv or .csv.gz")
    try:
        return readers[path.suffix](path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def show(result: Any, *, as_json: bool = False, out: Path | None = None) -> None:
    """Save a result if asked to, and print it: in words, or as JSON and nothing else."""
    if out is not None:
        result.save(out)
    if as_json:
        print(json.dumps(records.encode(result.to_dict()), indent=2))
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(str(result))
    if out is not None:
        console.print(f"  saved in {out}")
