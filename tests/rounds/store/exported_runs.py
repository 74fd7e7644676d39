"""Short runs to export, and everything that is in a store."""

from __future__ import annotations

import numpy as np
import sqlalchemy as sql

from tests.rounds.worlds import one_round
from tether.rounds import Controller
from tether.rounds.store import schema
from tether.rounds.store.database import Store


def make_run(world, store, rounds=5, rows=200, **options):
    """A run with pending and withdrawn actions at the end; returns its rounds."""
    rng = np.random.default_rng(1)
    settings = {"alpha": 0.25, "alarm_risk": 0.9} | options
    with Controller(world.safe(), store=store, **settings) as run:
        made = [one_round(run, world, number, rows, rng)[0] for number in range(1, 1 + rounds)]
        taken = run.round.act(world.contexts(20, rng), rng)
        run.observe(taken.ids[:5], np.zeros(5))
        run.withdraw(taken.ids[5:8], "the <power> failed")
    return made


def all_tables(store):
    """Every row of every table but the one that is recomputed, as tuples in the order of keys."""
    opened, found = Store(store, create=False), {}
    with opened.reading() as connection:
        for table in schema.tables.sorted_tables:
            if table is not schema.kept:
                query = sql.select(table).order_by(*table.primary_key)
                rows = connection.execute(query).fetchall()
                found[table.name] = [tuple(map(_plain, row)) for row in rows]
    opened.close()
    return found


def kept_state(store):
    """What the store keeps for the monitors, by name."""
    opened = Store(store, create=False)
    with opened.reading() as connection:
        rows = connection.execute(sql.select(schema.kept)).fetchall()
    opened.close()
    return dict(tuple(row) for row in rows)


def _plain(value):
    return bytes(value) if isinstance(value, memoryview) else value
