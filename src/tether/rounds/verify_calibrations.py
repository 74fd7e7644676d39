"""Whether the calibrations of rounds can be read."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sql

from tether.rounds.errors import TamperedError, as_tampering
from tether.rounds.store import schema
from tether.rounds.store.queries import calibration_from_json


def find_wrong_calibrations(connection: sql.Connection) -> Iterator[str]:
    """What is wrong with calibrations, round after round."""
    table = schema.rounds
    query = sql.select(table.c.number, table.c.calibration).order_by(table.c.number)
    for number, text in connection.execute(query.where(table.c.calibration.is_not(None))):
        try:
            with as_tampering("it"):
                calibration_from_json(text)
        except TamperedError as error:
            yield f"round {number}: {error}"
