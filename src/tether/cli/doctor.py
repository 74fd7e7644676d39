"""`tether doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

from typing import Annotated

import typer

from tether._core import validate
from tether._core.extras import EXTRAS
from tether.cli.installation import Installation
from tether.cli.terminal import VERIFICATION_FAILED, JsonOption, report_errors, show


@report_errors
def doctor(
    need: Annotated[
        list[str] | None,
        typer.Option(help=f"An extra that must be there; repeat for several: {', '.join(EXTRAS)}."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show versions and extras, what is missing and how to get it; no network is used.

    The exit code is 1 if a package is too old, an extra that --need names is incomplete, or a small
    calibration does not give what it should.
    """
    needed = tuple(validate.choice("--need", each, EXTRAS) for each in need or ())
    found = Installation(needed)
    show(found, as_json=as_json)
    if found.problems:
        raise typer.Exit(VERIFICATION_FAILED)
