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
    from tether.rounds.standing_alarm import read_standing

    before = read_standing(store)
    clear_alarm(store, reason, actor)
    then = "The monitors start again with the next action."
    if before.is_release:
        then = "The next key begins a new ramp, at the first share."
    print_line(f"The alarms are cleared. {then}")
