"""Whether the calibrations of rounds agree with themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator

import sqlalchemy as sql

from tether._core import records
from tether.control.calibration_checks import find_problems
from tether.rounds.errors import TamperedError, as_tampering
from tether.rounds.store import schema


def find_wrong_calibrations(connection: sql.Connection) -> Iterator[str]:
    """What one entry of a calibration says and another contradicts, round after round."""
    table = schema.rounds
    query = sql.select(table.c.number, table.c.calibration).order_by(table.c.number)
    for number, text in connection.execute(query.where(table.c.calibration.is_not(None))):
        try:
            with as_tampering("it"):
                problems = list(find_problems(records.decode(json.loads(text))))
        except TamperedError as error:
            problems = [str(error)]
        yield from (f"round {number}: {problem}" for problem in problems)
