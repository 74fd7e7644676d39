"""The monitors of a run: they read the stored rows, and store an alarm in the same transaction.

Their state is a function of the stored rows in order, so it is not stored itself: a process that
opens the store later, or alongside another, raises the same alarm at the same row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Contexts
from tether.monitor import RiskMonitor, ShiftMonitor
from tether.rounds.policy_registry import SAFE
from tether.rounds.settings import Settings
from tether.rounds.store import database, schema
from tether.rounds.store.database import Store
from tether.rounds.store.rows import read_codecs

REFERENCE_CONTEXTS = 500
"""How many contexts, from the start of the run or the last alarm, serve as the reference."""


def resume(store: str | Path, reason: str) -> None:
    """Clear the alarm that stands in a store; no policy is needed.

    Parameters
    ----------
    store : str or pathlib.Path
        The path or URL of an existing store.
    reason : str
        Why the alarm may be cleared; stored with it.

    Raises
    ------
    ValueError
        If the reason is empty, or no alarm stands.
    StoreError
        If there is no store, or it cannot be written.
    """
    opened = Store(store, create=False)
    try:
        clear_alarm(opened, reason)
    finally:
        opened.close()


def clear_alarm(store: Store, reason: str) -> None:
    """Clear the alarm that stands in an open store; the monitors restart."""
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"reason must say why the alarm may be cleared, got {reason!r}")
    with store.writing() as connection:
        if database.find_alarm(connection) is None:
            raise ValueError(f"no alarm stands in {store.name}: there is nothing to resume from")
        database.write_alarm_cleared(connection, reason.strip())


class Monitors:
    """One risk monitor per round on its policy's losses, and a shift monitor on all contexts."""

    def __init__(
        self, settings: Settings, context_score: Callable[[Contexts], ArrayLike] | None
    ) -> None:
        self._settings, self._context_score = settings, context_score
        self._restart((0, 0))

    @property
    def monitors_contexts(self) -> bool:
        """Whether contexts are monitored, not only losses."""
        return self._context_score is not None

    def _restart(self, after: tuple[int, int]) -> None:
        self._started_after = after
        self._last_action, self._last_observation = after
        self._risk: dict[int, RiskMonitor] = {}
        self._reference_scores: list[float] = []
        self._shift: ShiftMonitor | None = None

    def forget(self) -> None:
        """Read everything again next time: a transaction failed after the monitors saw it."""
        self._restart((0, 0))

    def update(self, connection: sql.Connection) -> None:
        """Read what is new, and raise an alarm in the same transaction if there is cause."""
        after = database.monitored_after(connection)
        if after != self._started_after:
            self._restart(after)
        if database.find_alarm(connection) is None:
            self._update_losses(connection)
        if self._context_score is not None and database.find_alarm(connection) is None:
            self._update_contexts(connection)

    def _update_losses(self, connection: sql.Connection) -> None:
        observation, action = schema.observations, schema.actions
        query = (
            sql.select(action.c.round, observation.c.loss)
            .join_from(observation, action, observation.c.action == action.c.id)
            .where(observation.c.number > self._last_observation, observation.c.loss.is_not(None))
            .where(action.c.served != SAFE)
            .order_by(observation.c.number)
        )
        new_rows = connection.execute(query).fetchall()
        # also past the observations of the safe policy
        self._last_observation = database.last_number(connection, observation.c.number)
        if not new_rows:
            return
        rounds, loss = (np.array(column) for column in zip(*new_rows, strict=True))
        settings = self._settings
        for number in np.unique(rounds).tolist():
            if number not in self._risk:
                self._risk[number] = RiskMonitor(
                    settings.alarm_risk, settings.bound, settings.false_alarm_probability
                )
            status = self._risk[number].update(loss[rounds == number])
            if status.alarm:
                database.write_alarm(connection, number, "risk", str(status))
                return

    def _update_contexts(self, connection: sql.Connection) -> None:
        assert self._context_score is not None
        table = schema.actions
        query = (
            sql.select(table.c.id, table.c.round, table.c.context)
            .where(table.c.id > self._last_action)
            .order_by(table.c.id)
        )
        new_rows = connection.execute(query).fetchall()
        if not new_rows:
            return
        ids, rounds, encoded = zip(*new_rows, strict=True)
        self._last_action = ids[-1]
        contexts = read_codecs(connection).context.decode(encoded)
        scores = validate.floats("context_score's result", self._context_score(contexts))
        validate.same_length("context_score's result", scores, "contexts", len(new_rows))
        settings = self._settings
        if self._shift is None:
            lacking = REFERENCE_CONTEXTS - len(self._reference_scores)
            self._reference_scores += scores[:lacking].tolist()
            scores = scores[lacking:]
            if len(self._reference_scores) == REFERENCE_CONTEXTS:
                rng = np.random.default_rng([settings.seed, self._started_after[0]])
                self._shift = ShiftMonitor(
                    self._reference_scores, settings.false_alarm_probability, rng=rng
                )
        if self._shift is not None and len(scores):
            status = self._shift.update(scores)
            if status.alarm:
                database.write_alarm(connection, int(rounds[-1]), "shift", str(status))
