"""What a store of either kind holds, and the alarm that stands in it."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sql

from tether.rounds.history import Alarm
from tether.rounds.run_settings import KIND_SETTING, RELEASE_KIND
from tether.rounds.store import schema
from tether.rounds.store.opened_store import opened_store
from tether.rounds.store.queries import read_settings
from tether.rounds.store.serving import read_serving


class Standing(NamedTuple):
    """Whether it is a release, and the alarm that stands, if any."""

    is_release: bool
    alarm: Alarm | None


def read_standing(store: str) -> Standing:
    """Read what a person who halts or resumes is told."""
    with opened_store(store) as opened, opened.reading() as connection:
        is_release = read_settings(connection).get(KIND_SETTING) == RELEASE_KIND
        number, table = read_serving(connection).alarm, schema.alarms
        if number is None:
            return Standing(is_release, None)
        row = connection.execute(sql.select(table).where(table.c.number == number)).mappings().one()
        return Standing(is_release, Alarm(**row))
