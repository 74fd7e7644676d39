"""`tether backup`: a copy of an SQLite store while the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.terminal import ForceOption, StoreName, print_line, report_errors


@report_errors
def backup(
    store: StoreName,
    out: Annotated[Path, typer.Argument(help="The SQLite file to write.")],
    force: ForceOption = False,
) -> None:
    """Copy an SQLite store while it is being written, and check the copy."""
    from tether.rounds import backup_run

    backup_run(store, out, overwrite=force)
    print_line(f"Backup: {out}")
