"""`tether retire`: leave a round whose policy is lost out of later calibrations."""

from __future__ import annotations

from typing import Annotated

import typer

from tether.cli.terminal import ActorOption, StoreName, print_line, report_errors


@report_errors
def retire(
    store: StoreName,
    number: Annotated[int, typer.Argument(help="The number of the round.", metavar="ROUND")],
    reason: Annotated[str, typer.Option(help="Why its policy is not available any more.")],
    actor: ActorOption = None,
) -> None:
    """Leave the rows of a round out of later calibrations, because its policy is lost.

    Only for reasons that are unrelated to the losses of the round.
    """
    from tether.rounds import retire as retire_round

    retire_round(store, number, reason, actor)
    print_line(f"Round {number} is retired. Its rows stay in the store, with the reason.")
