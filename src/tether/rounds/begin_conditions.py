"""What is known before a calibration: whether the losses that it waits for have arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether.rounds.calibrate_round import losses_in_use
from tether.rounds.errors import LossesMissingError
from tether.rounds.store.serving import read_retired, read_serving

if TYPE_CHECKING:
    from tether.rounds.controller import Controller


def require_losses(run: Controller) -> None:
    """Refuse to begin a round while losses are missing, with words for those who use no Python."""
    if run.settings.is_ramp or run.settings.missing != "wait":
        return
    with run._lock:
        run._refresh()
        with run._store.reading() as connection:
            serving, retired = read_serving(connection), read_retired(connection)
        if serving.alarm is not None:
            return  # the safe policy will serve, which needs no losses
        rows = run._rows
        try:
            losses_in_use(run.settings, rows, np.flatnonzero(rows.calibration), retired)
        except LossesMissingError as error:
            raise LossesMissingError(missing_in_words(error)) from error


def missing_in_words(error: LossesMissingError) -> str:
    """What is missing, and what to do about it over HTTP."""
    return (
        f"{error.counted}: report the outcomes that are missing (POST /v1/outcomes), then begin "
        "again; meanwhile the present round goes on"
    )
