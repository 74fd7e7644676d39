"""`tether serve-key`: an API key for a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.terminal import print_line, report_errors


@report_errors
def serve_key(
    file: Annotated[Path, typer.Argument(help="The file of keys, which access.keys names.")],
    name: Annotated[str, typer.Argument(help="Who has the key; shown in the audit trail.")],
    role: Annotated[
        list[str],
        typer.Option(help="What it may do: decide, report, operate or read; repeat for several."),
    ],
) -> None:
    """Make an API key: it is shown once, and its hash is added to the file."""
    from tether.service import add_key

    secret = add_key(file, name, role)
    print_line(secret)
    typer.echo(f"The key of {name} is not shown again; {file} has its hash.", err=True)
