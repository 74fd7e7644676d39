"""Scores are computed once, stored in a few pieces, and complete whatever fails."""

import numpy as np
import pytest

from tether.rounds.errors import StoreError
from tether.rounds.score_columns import ScoreColumns
from tether.rounds.store import score_pieces
from tether.rounds.store.database import Store


def score(number, rows):
    return number + np.arange(rows.start, rows.stop) / 100


@pytest.fixture
def store():
    opened = Store("sqlite://")
    yield opened
    opened.close()


def begin(store, columns, number, numbers, rows):
    """Let policies score rows as when a round begins."""
    columns.refresh()
    columns.complete("scores", numbers, rows, score)
    with store.writing(exclusive=True) as writer:
        columns.save(writer, number)
    columns.mark_saved()


def check(columns, numbers, rows):
    for number, values in columns.read("scores", numbers, 0, rows).items():
        np.testing.assert_array_equal(values, score(number, slice(0, rows)))


def test_a_round_adds_one_piece_for_old_policies_and_one_of_its_own(store):
    columns = ScoreColumns(store)
    for number in range(2, 9):
        begin(store, columns, number, range(2, number + 1), 10 * number)
    columns.refresh()
    starts = [(each.round, each.start, each.numbers) for each in columns._index.pieces]
    assert len(starts) == 7 + 6
    assert (8, 0, (8,)) in starts
    assert (8, 70, (2, 3, 4, 5, 6, 7)) in starts
    check(columns, range(2, 9), 80)
    again = ScoreColumns(store)
    again.refresh()
    check(again, range(2, 9), 80)


def test_what_is_known_is_not_computed_again(store):
    begin(store, ScoreColumns(store), 2, [2], 30)
    columns, asked = ScoreColumns(store), []
    columns.refresh()
    columns.complete(
        "scores", [2], 40, lambda number, rows: asked.append(rows) or score(number, rows)
    )
    assert asked == [slice(30, 40)]
    check(columns, [2], 40)


def test_a_policy_that_was_left_out_for_a_while_is_completed(store):
    columns = ScoreColumns(store)
    begin(store, columns, 2, [2], 10)
    begin(store, columns, 3, [3], 20)
    begin(store, columns, 4, [2, 3, 4], 30)
    again = ScoreColumns(store)
    again.refresh()
    check(again, [2, 3, 4], 30)


def test_large_pieces_of_one_round_that_begin_at_the_same_row(store, monkeypatch):
    monkeypatch.setattr(score_pieces, "MAX_BLOB_BYTES", 80)
    columns = ScoreColumns(store)
    begin(store, columns, 2, [2], 10)
    begin(store, columns, 3, [2, 3], 30)  # both have a piece from row 10 on
    again = ScoreColumns(store)
    again.refresh()
    check(again, [2, 3], 30)


def test_what_was_not_stored_is_forgotten(store):
    columns = ScoreColumns(store)
    begin(store, columns, 2, [2], 10)
    columns.refresh()
    columns.complete("scores", [2, 3], 25, lambda number, rows: np.zeros(rows.stop - rows.start))
    columns.forget()
    assert (columns.length("scores", 2), columns.length("scores", 3)) == (10, 0)
    begin(store, columns, 3, [2, 3], 25)
    columns.refresh()
    check(columns, [2, 3], 25)


def test_a_transaction_that_fails_at_its_end_loses_nothing(store, monkeypatch):
    begin(store, ScoreColumns(store), 2, [2], 10)
    columns, refresh = ScoreColumns(store), score_pieces.PieceIndex.refresh

    def interrupted(self, connection):
        refresh(self, connection)
        raise StoreError("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(score_pieces.PieceIndex, "refresh", interrupted)
        with pytest.raises(StoreError, match="lost"):
            columns.refresh()
    columns.refresh()
    assert columns.length("scores", 2) == 10
    check(columns, [2], 10)


def test_missing_scores_are_an_error(store):
    columns = ScoreColumns(store)
    begin(store, columns, 2, [2], 10)
    with pytest.raises(StoreError, match="scores 'scores' of round 2 are missing"):
        columns.read("scores", [2], 0, 10)  # stored, but not learned of
