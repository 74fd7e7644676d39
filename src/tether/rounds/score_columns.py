"""Scores of calibration rows under each round's policy: computed once, then kept in the store."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sqlalchemy as sql

from tether._core.types import Floats
from tether.rounds.store.store import Store, read_column, write_column


class Scores:
    """A cache of columns, one value (or one row of a table) for each calibration row in order.

    What is new stays in memory until `save` writes it in the transaction that begins the round.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[tuple[int, str], Floats] = {}
        self._fresh: list[tuple[int, str, int, Floats]] = []

    def column(
        self,
        number: int,
        name: str,
        count: int,
        compute: Callable[[slice], Floats],
        width: int | None = None,
    ) -> Floats:
        """The first `count` values of a round's column; those not known yet are computed."""
        key = (number, name)
        empty = np.empty(0 if width is None else (0, width))
        kept = self._kept.setdefault(key, empty)
        if len(kept) < count:  # another process may have gone on with it
            with self._store.reading() as connection:
                flat = read_column(connection, number, name, len(kept))
            self._kept[key] = np.concatenate([kept, flat.reshape(-1, *empty.shape[1:])])
        start = len(self._kept[key])
        if start < count:
            fresh = np.asarray(compute(slice(start, count)), dtype=np.float64)
            self._kept[key] = np.concatenate([self._kept[key], fresh]) if start else fresh
            self._fresh.append((number, name, start, fresh))
        return self._kept[key][:count]

    def save(self, connection: sql.Connection) -> None:
        """Write what is new; `forget` is to follow if the transaction fails, `settle` if not."""
        for part in self._fresh:
            write_column(connection, *part)

    def settle(self) -> None:
        """What was saved is in the store."""
        self._fresh.clear()

    def forget(self) -> None:
        """Back to what the store has."""
        self._kept.clear()
        self._fresh.clear()
