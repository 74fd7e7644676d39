"""`tether resume`: clear an alarm."""

from __future__ import annotations

from typing import Annotated

import typer

from tether.cli.terminal import StoreName, print_line, report_errors


@report_errors
def resume(
    store: StoreName,
    reason: Annotated[str, typer.Option(help="Why the optimized policy may act again.")],
) -> None:
    """Clear the current alarm and record the reason."""
    from tether.rounds import resume as clear_alarm

    clear_alarm(store, reason)
    print_line("The alarm is cleared. The monitors start again with the next action.")
