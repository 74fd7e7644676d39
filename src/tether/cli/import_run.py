"""`tether import`: a new store from an exported run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether._core.redact import redact_url
from tether.cli.terminal import StoreName, print_line, report_errors, require_file


@report_errors
def import_run(
    file: Annotated[Path, typer.Argument(help="A file written by `tether export`.")],
    store: StoreName,
    actor: Annotated[
        str | None, typer.Option(help="Who imports it. (default: the user's name)")
    ] = None,
) -> None:
    """Check an exported run completely, and fill a new store from it."""
    from tether.rounds import import_run as import_into_store

    require_file(file)
    import_into_store(file, store, actor=actor)
    print_line(f"Imported into {redact_url(store)}")
