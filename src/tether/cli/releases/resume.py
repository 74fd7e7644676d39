"""`tether release resume`: as `tether resume`, in the words of a release."""

from __future__ import annotations

from typing import Annotated

import typer

from tether.cli.resume import resume
from tether.cli.terminal import ActorOption, StoreName, report_errors


@report_errors
def release_resume(
    store: StoreName,
    reason: Annotated[str, typer.Option(help="Why the new system may answer again.")],
    actor: ActorOption = None,
) -> None:
    """Clear the alarms that stand, so that a new ramp begins; record who did it and why."""
    resume(store, reason, actor)
