"""Reports: what actions cost, once for each action."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray
from sqlalchemy.exc import IntegrityError

from tether._core import validate
from tether.rounds.monitors import Watch
from tether.rounds.store import schema
from tether.rounds.store.store import Store, known, last

SHOWN = 5


def observe(store: Store, watch: Watch, ids: Any, losses: Any, rewards: Any, bound: float) -> None:
    """Write losses and rewards down, and let the monitors see them, in one transaction."""
    numbers = _ids(ids)
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
    _write(store, watch, numbers, rows)


def withdraw(store: Store, watch: Watch, ids: Any, reason: str) -> None:
    """Write down that actions were never carried out, and why."""
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"reason must say in words why the actions are withdrawn, got {reason!r}")
    numbers = _ids(ids)
    rows = [{"action": action, "reason": reason.strip()} for action in numbers.tolist()]
    _write(store, watch, numbers, rows)


def _write(
    store: Store, watch: Watch, numbers: NDArray[np.int64], rows: list[dict[str, Any]]
) -> None:
    try:
        with store.writing() as connection:
            _check_known(connection, numbers)
            first = 1 + last(connection, schema.reports.c.number)
            for place, row in enumerate(rows):
                row["number"] = first + place
            connection.execute(schema.reports.insert(), rows)
            watch.look(connection)
    except BaseException as error:
        watch.forget()
        if isinstance(error, IntegrityError):
            with store.reading() as connection:
                twice = sorted(known(connection, schema.reports.c.action, numbers))
            raise ValueError(
                f"ids {_shown(twice)} have been reported already ({len(twice)} of {len(numbers)}): "
                f"each action is reported once, and nothing of this report was kept"
            ) from error
        raise


def _check_known(connection: sql.Connection, numbers: NDArray[np.int64]) -> None:
    given_out = last(connection, schema.actions.c.id)
    unknown = numbers[(numbers < 1) | (numbers > given_out)]
    if len(unknown):
        raise ValueError(
            f"ids {_shown(unknown.tolist())} are unknown ({len(unknown)} of {len(numbers)}): the "
            f"store has given out 1 to {given_out}, and nothing of this report was kept"
        )


def _ids(ids: Any) -> NDArray[np.int64]:
    validate.reject_masked("ids", ids)
    array = np.atleast_1d(np.asarray(ids))
    if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array):
        raise TypeError(f"ids must be the whole numbers that `act` returned, got {ids!r}")
    unique, counts = np.unique(array, return_counts=True)
    if len(unique) < len(array):
        twice = unique[counts > 1].tolist()
        raise ValueError(f"ids {_shown(twice)} are there more than once: each is reported once")
    return array.astype(np.int64)


def _shown(numbers: list[int]) -> str:
    more = ", …" if len(numbers) > SHOWN else ""
    return f"{', '.join(map(str, numbers[:SHOWN]))}{more}"
