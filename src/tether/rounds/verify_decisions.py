"""Whether what each round decided is right: shares are computed again, calibrations are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sql

from tether.rounds.errors import TamperedError, as_tampering
from tether.rounds.ramps.verify_ramps import find_wrong_ramps
from tether.rounds.releases.verify_steps import find_wrong_steps
from tether.rounds.run_settings import KIND_SETTING, RELEASE_KIND, decides_shares
from tether.rounds.verify_calibrations import find_wrong_calibrations


def find_wrong_decisions(connection: sql.Connection, stored: Mapping[str, Any]) -> list[str]:
    """What is wrong with the shares or calibrations of a run; its hash chain has been checked.

    `stored` are its settings.
    """
    if not decides_shares(stored):
        return list(find_wrong_calibrations(connection, stored))
    is_release = stored.get(KIND_SETTING) == RELEASE_KIND
    find_wrong = find_wrong_steps if is_release else find_wrong_ramps
    try:
        with as_tampering("the release" if is_release else "the ramp"):
            return list(find_wrong(connection, stored))
    except TamperedError as error:
        return [str(error)]
