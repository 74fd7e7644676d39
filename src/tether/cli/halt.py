"""`tether halt`: send all traffic to the safe policy, or to the old system of a release."""

from __future__ import annotations

from typing import Annotated

import typer

from tether.cli.terminal import ActorOption, StoreName, print_line, report_errors


@report_errors
def halt(
    store: StoreName,
    reason: Annotated[
        str, typer.Option(help="Why only the safe policy, or the old system, may act.")
    ],
    actor: ActorOption = None,
) -> None:
    """Send all traffic to the safe policy, in every process, until `tether resume`.

    In a release: to the old system.
    """
    from tether.rounds import halt as halt_run
    from tether.rounds.standing_alarm import read_standing

    before = read_standing(store)
    halt_run(store, reason, actor)
    who = "the old system answers all keys" if before.is_release else "the safe policy acts"
    print_line(f"Halted. From the next call on, until `tether resume`, {who}.")
    if before.alarm is not None:
        print_line(f"Alarm {before.alarm.number} stood already: {before.alarm.message}")
