"""Writing actions down before anyone carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.rounds.errors import RoundOverError
from tether.rounds.monitors import Watch
from tether.rounds.store import alarms, schema
from tether.rounds.store.codec import Codec
from tether.rounds.store.rows import codecs_in
from tether.rounds.store.store import Store, last, read_terms, write_terms


def write_actions(
    store: Store,
    watch: Watch,
    *,
    number: int,
    served: int,
    alarm: int | None,
    contexts: Any,
    actions: NDArray[Any],
    calibration: NDArray[np.bool_],
    scores: Mapping[str, Floats | None],
    failure: str = "",
) -> NDArray[np.int64] | None:
    """Actions with their scores, in one transaction; their ids.

    A failure is why the safe policy took them, and is written with them. None, and nothing is
    written, where the alarm that stands is not the one the caller knew of.
    """
    rows: list[dict[str, Any]] = [{"round": number, "served": served} for _ in actions]
    columns: dict[str, list[Any]] = {
        name: _plain(values, len(rows)) for name, values in scores.items()
    }
    columns["calibration"] = calibration.tolist()
    try:
        with store.writing() as connection:
            latest = last(connection, schema.rounds.c.number)
            if latest != number:
                raise RoundOverError(
                    f"round {number} is over: round {latest} has begun, and takes the actions now"
                )
            if alarms.standing(connection) != alarm:
                return None
            for_contexts, for_actions = _codecs(connection, contexts, actions)
            columns["context"] = for_contexts.encode("contexts", contexts)
            columns["action"] = for_actions.encode("actions", actions)
            first = 1 + last(connection, schema.actions.c.id)
            columns["id"] = list(range(first, first + len(rows)))
            for name, values in columns.items():
                for row, value in zip(rows, values, strict=True):
                    row[name] = value
            connection.execute(schema.actions.insert(), rows)
            if failure:
                _write_failure(connection, number, first, len(rows), failure)
            if watch.of_contexts:
                watch.look(connection)
    except BaseException:
        watch.forget()
        raise
    return np.arange(first, first + len(rows))


def _write_failure(
    connection: sql.Connection, number: int, first: int, count: int, message: str
) -> None:
    table = schema.failures
    row = {
        "number": 1 + last(connection, table.c.number),
        "round": number,
        "first_action": first,
        "last_action": first + count - 1,
        "message": message.encode("utf-8", "backslashreplace").decode("utf-8"),
        "failed": alarms.now(),
    }
    connection.execute(table.insert().values(**row))


def _codecs(connection: sql.Connection, contexts: Any, actions: Any) -> tuple[Codec, Codec]:
    """As the run's first actions fixed them; these are the first if there are none."""
    terms = read_terms(connection)
    if "actions" in terms:
        return codecs_in(terms)
    first = Codec.of("contexts", contexts), Codec.of("actions", actions).widened()
    write_terms(connection, {"contexts": first[0].to_dict(), "actions": first[1].to_dict()})
    return first


def _plain(values: Floats | None, count: int) -> list[float | None]:
    """Numbers as the database wants them, which has null and no NaN."""
    if values is None:
        return [None] * count
    return [None if value != value else value for value in values.tolist()]
