"""Checks of what is observed: ids that were assigned, each once, and losses that do not change."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Booleans, Floats, Integers
from tether.rounds.store import schema
from tether.rounds.store.lanes import Lane, split_ids
from tether.rounds.store.queries import IDS_PER_QUERY, is_among

MAX_IDS_SHOWN = 5
"""How many ids an error message lists."""


def checked_ids(ids: ArrayLike) -> Integers:
    """Ids as an array, each once."""
    validate.reject_masked("ids", ids)
    array = np.atleast_1d(np.asarray(ids))
    if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array):
        raise TypeError(f"ids must be integers returned by `act`, got {ids!r}")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"ids must be integers returned by `act`, got {array.max()}")
    unique, counts = np.unique(array, return_counts=True)
    if len(unique) < len(array):
        repeated = unique[counts > 1].tolist()
        raise ValueError(f"ids {_listed(repeated)} occur more than once: pass each id once")
    return array.astype(np.int64)


def check_known(reached: Mapping[int, Lane], numbers: Integers) -> None:
    """Refuse ids that the store has not assigned in its lanes."""
    lanes, in_lane = split_ids(numbers)
    last = {lane: each.last_action for lane, each in reached.items()}
    largest = np.array([last.get(lane, 0) if lane >= 0 else 0 for lane in lanes.tolist()])
    unknown = numbers[(in_lane < 1) | (in_lane > largest)]
    if len(unknown):
        raise ValueError(
            f"ids {_listed(unknown.tolist())} are unknown ({len(unknown)} of {len(numbers)}): the "
            f"store has not assigned them, and nothing of this call was stored"
        )


def check_repeated(
    connection: sql.Connection, numbers: Integers, loss: Floats, reward: Floats
) -> Booleans:
    """Which observations are new; one that differs from what is stored is refused."""
    table, known = schema.observations, {}
    for start in range(0, len(numbers), IDS_PER_QUERY):
        batch = numbers[start : start + IDS_PER_QUERY].tolist()
        query = sql.select(table.c.action, table.c.loss, table.c.reward)
        among = is_among(connection, table.c.action, batch)
        for action, *stored in connection.execute(query.where(among)):
            known[action] = np.array(stored, dtype=np.float64)
    is_new = np.array([number not in known for number in numbers.tolist()], dtype=np.bool_)
    given = np.stack([loss, reward], axis=1)
    different = [
        number
        for number, values in zip(numbers.tolist(), given, strict=True)
        if number in known and not _is_same(known[number], values)
    ]
    if different:
        raise ValueError(
            f"ids {_listed(different)} were already observed or withdrawn with another result "
            f"({len(different)} of {len(numbers)}): a loss is final, and nothing of this call was "
            f"stored"
        )
    return is_new


def _is_same(stored: Floats, given: Floats) -> bool:
    """Whether an observation repeats a stored one; a reward need not be repeated."""
    if np.isnan(given[1]):
        return bool(np.array_equal(stored[:1], given[:1], equal_nan=True))
    return bool(np.array_equal(stored, given, equal_nan=True))


def _listed(numbers: list[int]) -> str:
    more = ", …" if len(numbers) > MAX_IDS_SHOWN else ""
    return f"{', '.join(map(str, numbers[:MAX_IDS_SHOWN]))}{more}"
