"""`tether halt`: send all traffic to the safe policy."""

from __future__ import annotations

from typing import Annotated

import typer

from tether.cli.terminal import ActorOption, StoreName, print_line, report_errors


@report_errors
def halt(
    store: StoreName,
    reason: Annotated[str, typer.Option(help="Why the safe policy must act alone.")],
    actor: ActorOption = None,
) -> None:
    """Send all traffic to the safe policy, in every process, until `tether resume`."""
    from tether.rounds import halt as halt_run

    halt_run(store, reason, actor)
    print_line("Halted. The safe policy acts from the next call on, until `tether resume`.")
