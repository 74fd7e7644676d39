"""What the commands share: reading tables, printing results, reporting errors, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, Protocol, TypeVar

import pyarrow as pa
import typer
from pyarrow import csv, parquet
from rich.console import Console
from rich.markup import escape

from tether._core import files, records, signing

VERIFICATION_FAILED = 1
INVALID_INPUT = 2
NOTHING_PASSES = 3
ALARM_STANDS = 4
"""Exit codes other than 0."""

StoreName = Annotated[str, typer.Argument(help="A SQLite file or a database URL.")]
ActorOption = Annotated[
    str | None,
    typer.Option(help="Who does this; by default the name of the operating system's user."),
]
PromiseOption = Annotated[
    float | None, typer.Option(help="The whole bound on the expected loss that may be stated.")
]
AlphaOption = Annotated[
    float | None, typer.Option(help="The tolerated expected loss, instead of --promise.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace an existing file; never a store.")
]
KeyOption = Annotated[
    Path | None, typer.Option(help="Sign the file with this private key (see tether keygen).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Printable(Protocol):
    """A result that prints as text and converts to plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values."""
        ...


class Savable(Printable, Protocol):
    """A result that can also be saved."""

    def save(self, path: str | Path, *, overwrite: bool = False, key: Path | None = None) -> None:
        """Write as JSON."""
        ...


@dataclass(frozen=True)
class Output:
    """Where a command saves its result, if anywhere; checked before anything is computed."""

    path: Path | None
    force: bool = False
    key: Path | None = None

    def check(self, *inputs: Path | None) -> None:
        """Raise unless the result can be saved there, next to the files that are read."""
        if self.path is None:
            if self.key is not None or self.force:
                raise ValueError("--key and --force are for the file that --out names")
            return
        files.require_other_file(self.path, *inputs, self.key)
        files.require_target(self.path, overwrite=self.force)
        if self.key is not None:
            signing.read_private_key(self.key)


def report_errors(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Turn an error about the input into one line on stderr and exit code 2."""

    @wraps(command)
    def guarded(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            return command(*arguments, **options)
        except (ValueError, TypeError, OSError, ImportError) as error:
            message = escape(" ".join(str(error).split()))
            Console(stderr=True).print(
                f"[bold red]error:[/] {message}", highlight=False, soft_wrap=True
            )
            raise typer.Exit(INVALID_INPUT) from error

    return guarded


def read_table(path: Path) -> Any:
    """A Parquet or CSV file as an Arrow table."""
    require_file(path)
    readers = {".parquet": parquet.read_table, ".csv": csv.read_csv, ".gz": csv.read_csv}
    if path.suffix not in readers:
        raise ValueError(f"{path} must end in .parquet, .csv or .csv.gz")
    try:
        table = readers[path.suffix](path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if table.num_columns == 1 and any(mark in table.column_names[0] for mark in ";\t|"):
        raise ValueError(
            f"{path} has a single column {table.column_names[0]!r}: separate columns by commas"
        )
    if table.num_rows == 0:
        raise ValueError(f"{path} has no rows")
    return table


def require_one_target(alpha: float | None, promise: float | None) -> None:
    """Raise unless one of the two options was given."""
    if (alpha is None) == (promise is None):
        raise ValueError("pass exactly one of --promise and --alpha")


def require_file(path: Path) -> None:
    """Raise unless there is a file at this path."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")


def show(result: Printable, *, as_json: bool = False) -> None:
    """Print a result as text, or as JSON and nothing else."""
    if as_json:
        print(json.dumps(records.encode(result.to_dict()), indent=2))
    else:
        print_line(str(result))


def show_and_save(result: Savable, out: Output, *, as_json: bool) -> None:
    """Print a result, after saving it where a file is named."""
    if out.path is not None:
        result.save(out.path, overwrite=out.force, key=out.key)
    show(result, as_json=as_json)
    if out.path is not None and not as_json:
        print_line(f"  saved in {out.path}{'' if out.key is None else ', signed'}")


def print_line(text: str) -> None:
    """Print text as it is, without wrapping or highlighting."""
    Console(highlight=False, markup=False, soft_wrap=True).print(text)
