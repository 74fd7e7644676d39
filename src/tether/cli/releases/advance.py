"""`tether release advance`: begin the next step."""

from __future__ import annotations

import typer

from tether.cli.releases.step_text import show_step
from tether.cli.terminal import (
    ALARM_STANDS,
    NOTHING_PASSES,
    JsonOption,
    StoreName,
    report_errors,
)


@report_errors
def advance(store: StoreName, as_json: JsonOption = False) -> None:
    """End the present step and begin the next one, at a time that does not depend on losses.

    Exit code 3 if no share passes, 4 while an alarm stands: the old system answers all keys.
    """
    from tether.rounds import Release

    with Release(store) as release:
        release.advance()
        history = release.history()
    show_step(history, as_json=as_json)
    if history.alarm is not None:
        raise typer.Exit(ALARM_STANDS)
    if history.steps[-1].share == 0:
        raise typer.Exit(NOTHING_PASSES)
