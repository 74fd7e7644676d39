"""`tether resume`: clear an alarm."""

from __future__ import annotations

from typing import Annotated

import typer

from tether.cli.terminal import ActorOption, StoreName, print_line, report_errors


@report_errors
def resume(
    store: StoreName,
    reason: Annotated[
        str, typer.Option(help="Why the optimized policy, or the new system, may act again.")
    ],
    actor: ActorOption = None,
) -> None:
    """Clear the alarms that stand, and record who did it and why."""
    from tether.rounds import resume as clear_alarm

    clear_alarm(store, reason, actor)
    print_line(
        "The alarms are cleared. The monitors start again with the next action; in a release, a "
        "new ramp begins."
    )
