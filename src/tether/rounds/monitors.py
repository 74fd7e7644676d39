"""The monitors of a run: they read what the store has, and an alarm is written where they read.

Their state is a function of the stored rows in order, so it need not be kept: a process that opens
the store later, or beside another, comes to the same alarm at the same row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core import validate
from tether.monitor import RiskMonitor, ShiftMonitor
from tether.rounds.round_log import SAFE
from tether.rounds.settings import Terms
from tether.rounds.store import alarms, schema
from tether.rounds.store.rows import read_codecs
from tether.rounds.store.store import last

REFERENCE = 500
"""How many contexts, the first of a run or after an alarm, the later ones are compared with."""


class Watch:
    """Losses of each round's tethered policy, and scores of all contexts, as they come in."""

    def __init__(self, terms: Terms, context_score: Callable[[Any], Any] | None) -> None:
        self._terms, self._context_score = terms, context_score
        self._begin_anew((0, 0))

    @property
    def of_contexts(self) -> bool:
        """Whether contexts are watched, not only losses."""
        return self._context_score is not None

    def _begin_anew(self, beginning: tuple[int, int]) -> None:
        self._beginning = beginning
        self._action, self._report = beginning
        self._risk: dict[int, RiskMonitor] = {}
        self._waiting: list[Any] = []
        self._shift: ShiftMonitor | None = None

    def forget(self) -> None:
        """Read everything again next time: a transaction failed after the monitors saw it."""
        self._begin_anew((0, 0))

    def look(self, connection: sql.Connection) -> None:
        """See what is new, and raise an alarm in the same transaction if there is reason to."""
        beginning = alarms.beginning(connection)
        if beginning != self._beginning:
            self._begin_anew(beginning)
        if alarms.standing(connection) is None:
            self._look_at_losses(connection)
        if self._context_score is not None and alarms.standing(connection) is None:
            self._look_at_contexts(connection)

    def _look_at_losses(self, connection: sql.Connection) -> None:
        report, action = schema.reports, schema.actions
        query = (
            sql.select(action.c.round, report.c.loss)
            .join_from(report, action, report.c.action == action.c.id)
            .where(report.c.number > self._report, report.c.loss.is_not(None))
            .where(action.c.served != SAFE)
            .order_by(report.c.number)
        )
        fresh = connection.execute(query).fetchall()
        self._report = last(connection, report.c.number)  # also past those of the safe policy
        if not fresh:
            return
        rounds, loss = (np.array(column) for column in zip(*fresh, strict=True))
        for each in np.unique(rounds).tolist():
            if each not in self._risk:
                terms = self._terms
                self._risk[each] = RiskMonitor(terms.watched, terms.bound, terms.delta)
            found = self._risk[each].update(loss[rounds == each])
            if found.alarm:
                alarms.raise_alarm(connection, each, "risk", str(found))
                return

    def _look_at_contexts(self, connection: sql.Connection) -> None:
        assert self._context_score is not None
        table = schema.actions
        query = (
            sql.select(table.c.id, table.c.round, table.c.context)
            .where(table.c.id > self._action)
            .order_by(table.c.id)
        )
        fresh = connection.execute(query).fetchall()
        if not fresh:
            return
        number, rounds, contexts = zip(*fresh, strict=True)
        self._action = number[-1]
        given = read_codecs(connection)[0].decode(contexts)
        scores = validate.floats("context_score's answer", self._context_score(given))
        validate.same_length("context_score's answer", scores, "contexts", len(fresh))
        if self._shift is None:
            lacking = REFERENCE - len(self._waiting)
            self._waiting += scores[:lacking].tolist()
            scores = scores[lacking:]
            if len(self._waiting) == REFERENCE:
                rng = np.random.default_rng([self._terms.seed, self._beginning[0]])
                self._shift = ShiftMonitor(self._waiting, self._terms.delta, rng=rng)
        if self._shift is not None and len(scores):
            found = self._shift.update(scores)
            if found.alarm:
                alarms.raise_alarm(connection, int(rounds[-1]), "shift", str(found))
