"""Whether scores and checkpoints were written with the rounds that they say they are of."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator

import sqlalchemy as sql

from tether.rounds.store import schema
from tether.rounds.store.lanes import CONTROL_LANE, SCORES_LANE
from tether.rounds.store.writer import COLUMN, record_kind


def find_stray_scores(connection: sql.Connection) -> Iterator[str]:
    """Entries of the lane of scores that no round, or another one, was written after.

    A round is written after its scores, and its signature covers them. What follows the last round
    was added by somebody else.
    """
    entry = schema.entries
    rounds = sql.select(entry.c.first, entry.c.heads).where(
        entry.c.lane == CONTROL_LANE, entry.c.kind == record_kind(schema.rounds)
    )
    numbers, reached = [], []
    for number, heads in connection.execute(rounds.order_by(entry.c.number)):
        numbers.append(number)
        reached.append(json.loads(heads).get(str(SCORES_LANE), [0])[0])
    scores = sql.select(entry.c.number, entry.c.kind, entry.c.round, entry.c.note)
    scores = scores.where(entry.c.lane == SCORES_LANE).order_by(entry.c.number)
    for number, kind, of_round, note in connection.execute(scores):
        place = bisect_left(reached, number)
        if place == len(reached):
            yield f"entry {number} of the hash chain of scores was written after the last round"
        elif kind == COLUMN and of_round != numbers[place]:
            yield (
                f"scores {note!r} are of round {of_round}, but were written with round "
                f"{numbers[place]}"
            )
