"""Rows in any number, and what a database that refuses them or is frozen leaves behind."""

from __future__ import annotations

import numpy as np
import pytest
import sqlalchemy as sql
from sqlalchemy import exc

from tests.rounds.frozen_processes import PATIENCE_SECONDS, answer, frozen
from tether.rounds import StoreError
from tether.rounds.store import chain, schema
from tether.rounds.store.database import Store
from tether.rounds.store.deadline import within
from tether.rounds.store.fetched_columns import fetch_columns
from tether.rounds.store.lanes import read_lane
from tether.rounds.store.verify_run import check_opened

NUMBERS = (0.0, -1.5, 1e-308, 1e308, -np.inf, 5e-324, 0.1)
CONTENT = (b"", b"\0", b"\\x00", bytes(range(256)), b"\n\t\\N")
TEXT = ("", "a\tb\nc", "\\N", "né ␟ \U0001f600")


@pytest.fixture
def store(store_url):
    opened = Store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def postgres_store(postgres_url):
    opened = Store(postgres_url)
    yield opened
    opened.close()


def cycled(values, count, *, with_null=True):
    values = [*values, None] if with_null else list(values)
    return [values[k % len(values)] for k in range(count)]


def actions(count):
    return {
        "calibration": [k % 3 == 0 for k in range(count)],
        "context": cycled(CONTENT, count),
        "candidates": cycled(CONTENT[1:], count),
        "action": cycled(CONTENT, count, with_null=False),
        "log_safe": cycled(NUMBERS, count, with_null=False),
        "log_optimized": cycled(NUMBERS, count),
        "log_prob": cycled(NUMBERS[2:], count),
        "context_score": cycled(NUMBERS[1:4], count),
    }


def observations(ids):
    count = len(ids)
    others = {name: [0] * count for name in ("which",) if name in schema.observations.c}
    return {
        "action": list(ids),
        "loss": cycled((0.0, 0.25, 1.0), count),
        "reward": cycled(NUMBERS, count),
        "reason": cycled(TEXT, count),
        **others,
    }


def write(store, count, *, through_driver=False):
    with store.writing() as writer:
        ids = writer.actions(actions(count), number=1, served=0, through_driver=through_driver)
        writer.observations(observations(ids))
    return ids


@pytest.mark.parametrize("through_driver", [False, True])
@pytest.mark.parametrize("count", [1, 2, 100])
def test_rows_are_read_as_they_were_written(store, count, through_driver):
    write(store, 1)  # the first call makes the lane
    ids = write(store, count, through_driver=through_driver)
    assert ids == list(range(2, 2 + count))
    with store.reading() as connection:
        check_opened(connection)
        for kind, given in (("actions", actions(count)), ("observations", observations(ids))):
            found, number = fetch_columns(connection, kind, 1, 1 + count)
            assert number == count
            for name, values in given.items():
                expected = np.array(values, float) if isinstance(found[name], np.ndarray) else None
                if expected is None:
                    assert list(found[name]) == values
                else:
                    np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("count", [1, 3])
def test_rows_that_are_there_already_are_refused_as_by_any_statement(store, count):
    ids = write(store, count)

    def again():
        with store.writing() as writer:
            writer.observations(observations(ids))

    with pytest.raises(exc.IntegrityError):
        again()
    write(store, count)
    with store.reading() as connection:
        check_opened(connection)
        assert read_lane(connection, 0).last_observation == 2 * count


@pytest.mark.parametrize("count", [1, 3])
def test_what_fails_in_a_savepoint_takes_no_numbers(store, count):
    ids = write(store, count)

    def again(writer):
        with writer.savepoint():
            writer.actions(actions(count), number=1, served=0)
            writer.observations(observations(ids))

    with store.writing() as writer:
        with pytest.raises(exc.IntegrityError):
            again(writer)
        assert writer.actions(actions(count), number=1, served=0)[0] == ids[-1] + 1
    with store.reading() as connection:
        check_opened(connection)
        assert read_lane(connection, 0).last_entry == 3


def test_rows_that_a_frozen_backend_does_not_take_end_at_the_deadline(postgres_store):
    write(postgres_store, 2)
    large = actions(1000) | {"context": [bytes(2**16)] * 1000}

    def call(rows):
        with postgres_store.writing(patience=PATIENCE_SECONDS) as writer:
            pid = writer.connection.scalar(sql.select(sql.func.pg_backend_pid()))
            with frozen([pid]), within(0.3):
                writer.actions(rows, number=1, served=0)

    for rows in (actions(2), large):
        error = answer(lambda: call(rows))  # noqa: B023
        assert isinstance(error, StoreError), error
        assert "no answer within the deadline of 0.3 s" in str(error)
    assert write(postgres_store, 2) == [3, 4]


def test_every_column_of_the_large_tables_is_written():
    assert set(chain.ACTION_COLUMNS) == {column.name for column in schema.actions.c}
    assert set(chain.OBSERVATION_COLUMNS) == {column.name for column in schema.observations.c}
