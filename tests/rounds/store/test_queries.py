"""Reading and writing the small tables of a store."""

from __future__ import annotations

import numpy as np
import sqlalchemy as sql

from tether.rounds.store import queries, schema
from tether.rounds.store.database import Store
from tether.rounds.store.queries import read_column, write_column


def test_a_column_is_stored_in_pieces_that_a_database_can_hold(store_url, monkeypatch):
    monkeypatch.setattr(queries, "MAX_BLOB_BYTES", 100)
    opened = Store(store_url)
    values = np.random.default_rng(0).normal(size=(17, 3))
    values[3, 1] = -np.inf
    with opened.writing() as connection:
        write_column(connection, 1, "scores", 0, values[:9])
        write_column(connection, 1, "scores", 9, values[9:])
    with opened.reading() as connection:
        np.testing.assert_array_equal(read_column(connection, 1, "scores"), values.ravel())
        np.testing.assert_array_equal(read_column(connection, 1, "scores", 9), values[9:].ravel())
        lengths = connection.scalars(sql.select(sql.func.length(schema.columns.c["values"])))
        assert max(lengths) <= 100
    opened.close()
