"""`tether serve` and `tether serve-key`: a release, a run or a gateway behind HTTP, and keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.terminal import (
    argument,
    print_line,
    report_errors,
)


@report_errors
def serve(
    file: Annotated[Path, argument("A TOML file with the settings of the service.")],
) -> None:
    """Serve a release, a run or a gateway over HTTP until Ctrl-C; logs are JSON lines on stderr."""
    from tether.service import read_service_settings, run_service

    run_service(read_service_settings(file))


@report_errors
def serve_key(
    file: Annotated[Path, argument("The file of keys, which access.keys names.")],
    name: Annotated[str, argument("Who has the key; shown in the audit trail.")],
    role: Annotated[
        list[str] | None,
        typer.Option(help="What it may do: decide, report, operate or read; repeat for several."),
    ] = None,
    revoke: Annotated[bool, typer.Option(help="Remove the key from the file.")] = False,
) -> None:
    """Make an API key: it is shown once, and its hash is added to the file. Or revoke one."""
    from tether.service import add_key, remove_key

    if revoke == bool(role):
        raise ValueError("name either --role, to make a key, or --revoke")
    if revoke:
        remove_key(file, name)
        print_line(f"The key of {name} is revoked: services that run refuse it in two seconds.")
        return
    print_line(add_key(file, name, role or []))
    typer.echo(f"The key of {name} is not shown again; {file} has its hash.", err=True)
