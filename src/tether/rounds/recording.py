"""Storing actions before anyone carries them out, and their losses afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike, NDArray
from sqlalchemy.exc import IntegrityError

from tether._core import validate
from tether._core.types import Booleans, Floats, Integers
from tether.rounds.errors import RoundOverError
from tether.rounds.monitors import Monitors
from tether.rounds.store import database, schema
from tether.rounds.store.codecs import RowCodecs
from tether.rounds.store.database import Store, last_number

MAX_IDS_SHOWN = 5
"""How many ids an error message lists."""


def write_actions(
    store: Store,
    monitors: Monitors,
    *,
    number: int,
    served: int,
    alarm: int | None,
    contexts: Any,
    actions: NDArray[Any],
    calibration: Booleans,
    scores: Mapping[str, Floats | None],
    failure: str = "",
) -> Integers | None:
    """Store actions with their scores in one transaction; returns their ids.

    `failure` says why the safe policy took them, and is stored too. Returns None, and stores
    nothing, if the alarm that stands is not the one that the caller knew of.
    """
    rows: list[dict[str, Any]] = [{"round": number, "served": served} for _ in actions]
    columns: dict[str, list[Any]] = {
        name: _null_for_nan(values, len(rows)) for name, values in scores.items()
    }
    columns["calibration"] = calibration.tolist()
    try:
        with store.writing() as connection:
            latest = last_number(connection, schema.rounds.c.number)
            if latest != number:
                raise RoundOverError(
                    f"round {number} is over: round {latest} has begun; act in `run.round`"
                )
            if database.find_alarm(connection) != alarm:
                return None
            columns |= _codecs(connection, contexts, actions).encode(contexts, actions)
            first = 1 + last_number(connection, schema.actions.c.id)
            columns["id"] = list(range(first, first + len(rows)))
            for name, values in columns.items():
                for row, value in zip(rows, values, strict=True):
                    row[name] = value
            connection.execute(schema.actions.insert(), rows)
            if failure:
                _write_failure(connection, number, first, len(rows), failure)
            if monitors.monitors_contexts:
                monitors.update(connection)
    except BaseException:
        monitors.forget()
        raise
    return np.arange(first, first + len(rows))


def observe(
    store: Store,
    monitors: Monitors,
    ids: ArrayLike,
    losses: ArrayLike,
    rewards: ArrayLike | None,
    bound: float,
) -> None:
    """Store losses and rewards, and update the monitors, in one transaction."""
    numbers = _checked_ids(ids)
    loss = validate.losses("losses", losses)
    validate.same_length("losses", loss, "ids", len(numbers))
    if loss.max() > bound:
        validate.reject("losses", loss, loss > bound, f"a loss of at most bound = {bound:g}")
    reward: list[float | None] = [None] * len(loss)
    if rewards is not None:
        gained = validate.floats("rewards", rewards)
        validate.same_length("rewards", gained, "ids", len(numbers))
        if not np.isfinite(gained).all():
            validate.reject("rewards", gained, ~np.isfinite(gained), "a finite reward")
        reward = gained.tolist()
    rows = [
        {"action": action, "loss": cost, "reward": gain}
        for action, cost, gain in zip(numbers.tolist(), loss.tolist(), reward, strict=True)
    ]
    _write_observations(store, monitors, numbers, rows)


def withdraw(store: Store, monitors: Monitors, ids: ArrayLike, reason: str) -> None:
    """Store that actions were never carried out, and why."""
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"reason must say why the actions are withdrawn, got {reason!r}")
    numbers = _checked_ids(ids)
    rows = [{"action": action, "reason": reason.strip()} for action in numbers.tolist()]
    _write_observations(store, monitors, numbers, rows)


def _write_observations(
    store: Store, monitors: Monitors, numbers: Integers, rows: list[dict[str, Any]]
) -> None:
    table = schema.observations
    try:
        with store.writing() as connection:
            _check_known(connection, numbers)
            first = 1 + last_number(connection, table.c.number)
            for place, row in enumerate(rows):
                row["number"] = first + place
            connection.execute(table.insert(), rows)
            monitors.update(connection)
    except BaseException as error:
        monitors.forget()
        if isinstance(error, IntegrityError):
            with store.reading() as connection:
                repeated = sorted(database.find_known(connection, table.c.action, numbers))
            raise ValueError(
                f"ids {_listed(repeated)} were already observed or withdrawn ({len(repeated)} of "
                f"{len(numbers)}): each action is observed once, and nothing of this call was "
                f"stored"
            ) from error
        raise


def _check_known(connection: sql.Connection, numbers: Integers) -> None:
    largest = last_number(connection, schema.actions.c.id)
    unknown = numbers[(numbers < 1) | (numbers > largest)]
    if len(unknown):
        raise ValueError(
            f"ids {_listed(unknown.tolist())} are unknown ({len(unknown)} of {len(numbers)}): the "
            f"store has assigned 1 to {largest}, and nothing of this call was stored"
        )


def _checked_ids(ids: ArrayLike) -> Integers:
    validate.reject_masked("ids", ids)
    array = np.atleast_1d(np.asarray(ids))
    if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array):
        raise TypeError(f"ids must be integers returned by `act`, got {ids!r}")
    unique, counts = np.unique(array, return_counts=True)
    if len(unique) < len(array):
        repeated = unique[counts > 1].tolist()
        raise ValueError(f"ids {_listed(repeated)} occur more than once: pass each id once")
    return array.astype(np.int64)


def _listed(numbers: list[int]) -> str:
    more = ", …" if len(numbers) > MAX_IDS_SHOWN else ""
    return f"{', '.join(map(str, numbers[:MAX_IDS_SHOWN]))}{more}"


def _write_failure(
    connection: sql.Connection, number: int, first: int, count: int, message: str
) -> None:
    table = schema.failures
    row = {
        "number": 1 + last_number(connection, table.c.number),
        "round": number,
        "first_action": first,
        "last_action": first + count - 1,
        "message": message.encode("utf-8", "backslashreplace").decode("utf-8"),
        "failed": database.now(),
    }
    connection.execute(table.insert().values(**row))


def _codecs(connection: sql.Connection, contexts: Any, actions: NDArray[Any]) -> RowCodecs:
    """The stored codecs of contexts and actions; fixed by these rows if they are the first."""
    settings = database.read_settings(connection)
    if "actions" in settings:
        return RowCodecs.from_dict(settings)
    first = RowCodecs.of(contexts, actions)
    database.write_settings(connection, first.to_dict())
    return first


def _null_for_nan(values: Floats | None, count: int) -> list[float | None]:
    """Numbers for the database, which has NULL and no NaN."""
    if values is None:
        return [None] * count
    return [None if value != value else value for value in values.tolist()]
