"""`tether report`: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.terminal import StoreName, print_line, report_errors


@report_errors
def report(
    store: StoreName,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path(
        "report.html"
    ),
) -> None:
    """Write a report of a run as one HTML file that needs no network."""
    from tether.report import write
    from tether.rounds import read_history

    write(read_history(store), out)
    print_line(f"Report: {out}")
