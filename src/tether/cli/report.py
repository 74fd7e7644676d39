"""`tether report`: a run or a release as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether._core import files
from tether.cli.terminal import ForceOption, StoreName, print_line, report_errors


@report_errors
def report(
    store: StoreName,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    force: ForceOption = False,
) -> None:
    """Write a report of a run or a release as one HTML file that needs no network."""
    files.require_target(out, overwrite=force)
    from tether.report import write
    from tether.rounds.any_history import read_any_history

    write(read_any_history(store), out, overwrite=force)
    print_line(f"Report: {out}")
