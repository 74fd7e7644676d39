"""`tether serve`: a release, a run or a gateway behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.terminal import report_errors


@report_errors
def serve(
    file: Annotated[Path, typer.Argument(help="A TOML file with the settings of the service.")],
) -> None:
    """Serve a release, a run or a gateway over HTTP until Ctrl-C; logs are JSON lines on stderr."""
    from tether.service import read_service_settings, run_service

    run_service(read_service_settings(file))
