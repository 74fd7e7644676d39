"""`tether release halt`: as `tether halt`, in the words of a release."""

from __future__ import annotations

from typing import Annotated

import typer

from tether.cli.halt import halt
from tether.cli.terminal import ActorOption, StoreName, report_errors


@report_errors
def release_halt(
    store: StoreName,
    reason: Annotated[str, typer.Option(help="Why only the old system may answer.")],
    actor: ActorOption = None,
) -> None:
    """Let the old system answer all keys, in every process, until `tether release resume`."""
    halt(store, reason, actor)
