"""`tether demo`: an example on data that ships with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether._core.extras import require_extra
from tether.cli.terminal import ForceOption, report_errors


@report_errors
def demo(
    out: Annotated[
        Path, typer.Option(help="The folder for the figure, the store and the report.")
    ] = Path(),
    force: ForceOption = False,
) -> None:
    """Run an example: whom to send to biopsy, on data that ships with scikit-learn."""
    require_extra("tether demo", "demo")
    from tether.demo.biopsy import run
    from tether.demo.biopsy_rounds import require_new_store, run_rounds

    require_new_store(out)  # before the first part, which takes most of the time
    run(out, overwrite=force)
    run_rounds(out, overwrite=force)
