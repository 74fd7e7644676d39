"""`tether demo`: an example on data that ships with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.terminal import report_errors


@report_errors
def demo(
    out: Annotated[
        Path, typer.Option(help="The folder for the figure, the store and the report.")
    ] = Path(),
) -> None:
    """Run an example: whom to send to biopsy, on data that ships with scikit-learn."""
    from tether.demo.biopsy import run
    from tether.demo.biopsy_rounds import run_rounds

    run(out)
    run_rounds(out)
