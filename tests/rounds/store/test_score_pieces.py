"""Scores are stored in pieces, read for any policies and rows, and checked."""

import json

import numpy as np
import pytest
import sqlalchemy as sql

from tether.rounds import TamperedError
from tether.rounds.store import schema, score_pieces
from tether.rounds.store.database import Store
from tether.rounds.store.score_pieces import PieceIndex, in_pieces, piece_rows, read_scores


@pytest.fixture
def stored(store_url, monkeypatch):
    """A store with the scores of three policies at 17 rows, in pieces of at most 100 bytes."""
    monkeypatch.setattr(score_pieces, "MAX_BLOB_BYTES", 100)
    opened = Store(store_url)
    values = np.random.default_rng(0).normal(size=(3, 17, 2))
    values[1, 3, 1] = -np.inf
    with opened.writing(exclusive=True) as writer:
        writer.score_pieces(piece_rows(4, "scores", 0, [2, 3], values[:2, :9]))
        writer.score_pieces(piece_rows(5, "scores", 9, [2, 3], values[:2, 9:]))
        writer.score_pieces(piece_rows(5, "scores", 0, [5], values[2:]))
    yield opened, dict(zip([2, 3, 5], values, strict=True))
    opened.close()


def test_scores_are_those_that_were_stored(stored):
    opened, values = stored
    index = PieceIndex()
    with opened.reading() as connection:
        index.refresh(connection)
        known = list(index.pieces)
        index.refresh(connection)
        assert index.pieces == known
        for numbers in ([2], [3, 5], [2, 3, 5], []):
            for start, stop in ((0, 17), (4, 11), (9, 10), (5, 5)):
                found = read_scores(connection, index.pieces, numbers, start, stop, 2)
                assert found.keys() == set(numbers)
                for number in numbers:
                    np.testing.assert_array_equal(found[number], values[number][start:stop])
        lengths = connection.scalars(sql.select(sql.func.length(schema.columns.c["values"])))
        assert max(lengths) <= 100


def test_where_there_are_no_scores_they_are_nan(stored):
    opened, values = stored
    index = PieceIndex()
    with opened.reading() as connection:
        index.refresh(connection)
        found = read_scores(connection, index.pieces, [4, 5], 15, 20, 2)
    assert np.isnan(found[4]).all()
    np.testing.assert_array_equal(found[5][:2], values[5][15:])
    assert np.isnan(found[5][2:]).all()


def test_an_index_learns_of_later_pieces(stored):
    opened, _ = stored
    index = PieceIndex()
    with opened.reading() as connection:
        index.refresh(connection)
    with opened.writing(exclusive=True) as writer:
        writer.score_pieces(piece_rows(6, "scores", 17, [2, 5], np.ones((2, 1, 2))))
    with opened.reading() as connection:
        index.refresh(connection)
    new = index.pieces[-1]
    assert (new.round, new.start, new.stop, new.numbers) == (6, 17, 18, (2, 5))


def read_all(opened):
    index = PieceIndex()
    with opened.reading() as connection:
        index.refresh(connection)
        read_scores(connection, index.pieces, [2, 3], 0, 17, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"values": b"\0" * 96},
        {"numbers": "[3, 2]"},
        {"numbers": "{"},
        {"numbers": json.dumps([2, 4])},
        None,
    ],
)
def test_what_was_changed_is_named(stored, change):
    opened, _ = stored
    table = schema.columns
    chosen = (table.c.round == 4) & (table.c.start == 3)
    with opened._engine.begin() as connection:
        if change is None:
            connection.execute(table.delete().where(chosen))
        else:
            connection.execute(table.update().where(chosen).values(**change))
    with pytest.raises(TamperedError, match=r"'scores' of round 4 from row 3 on|not written by"):
        read_all(opened)


@pytest.mark.parametrize("shape", [(1, 40), (3, 40), (2, 40, 3), (1, 1), (5, 0)])
@pytest.mark.parametrize("cuts", [[], [1], [3, 3, 10], list(range(40))])
def test_parts_make_the_pieces_of_the_whole(monkeypatch, shape, cuts):
    monkeypatch.setattr(score_pieces, "MAX_BLOB_BYTES", 100)
    values, numbers = np.random.default_rng(0).normal(size=shape), range(shape[0])
    start, pieces = 7, []
    for piece in in_pieces(np.split(values, [k for k in cuts if k < shape[1]], axis=1)):
        pieces += piece_rows(4, "scores", start, numbers, piece)
        start += piece.shape[1]
    assert pieces == list(piece_rows(4, "scores", 7, numbers, values))


def test_entries_that_were_removed_at_the_end_are_missed(stored):
    opened, _ = stored
    table = schema.entries
    with opened._engine.begin() as connection:
        last = connection.scalar(sql.select(sql.func.max(table.c.number)).where(table.c.lane == -2))
        connection.execute(table.delete().where(table.c.lane == -2, table.c.number == last))
    with pytest.raises(TamperedError, match="end of the hash chain of scores"):
        read_all(opened)
