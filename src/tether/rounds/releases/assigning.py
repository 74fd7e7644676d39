"""Assigning keys: by their hash and the share in force, and stored before anyone is told.

With a fallback the old system answers the keys for which the store does not answer in time. They
get no row: the unit counts nowhere, and the row of the key begins with a later unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError

from tether.release.assignment import is_new, positions
from tether.rounds.errors import ClosedError, StoreError, TamperedError
from tether.rounds.outage import Budget, Unavailability
from tether.rounds.policy_registry import SAFE
from tether.rounds.recording import Recorder
from tether.rounds.releases.beginning import StepKeeper
from tether.rounds.releases.key_rows import NEW, OLD, Key, KeyRow, key_content, read_key_rows
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.step import Step
from tether.rounds.silence import taken
from tether.rounds.store.database import Store
from tether.rounds.store.lanes import read_lanes
from tether.rounds.store.serving import Serving, read_serving
from tether.rounds.store.writer import Writer

RELEASE_FALLBACKS = (OLD,)
"""What may answer when the store does not."""
KEYS_OF_A_BATCH, NEW_BATCHES_IN_A_ROW, KEYS_ASKED_FOR = 50, 3, 10
"""After so many batches of new keys alone, only so many keys of a batch are asked for."""

Known = dict[bytes, dict[str, KeyRow]]
MadeRows = Callable[[Sequence[tuple[bytes, str]]], None]


class _Moment(NamedTuple):
    """What an assignment was decided on: the step, what serves, and the rows of the keys.

    `known` is empty too where few keys were asked for: the database refuses those that have a row.
    """

    step: Step
    serving: Serving
    rows: int
    known: Known

    @property
    def share(self) -> float:
        return 0.0 if self.serving.alarm is not None else self.step.share

    def keys_left(self, settings: ReleaseSettings, rows: int) -> int | None:
        """How many keys still belong to the step; None if it is not ended by their number."""
        return self.step.keys_left(settings, rows, is_halted=self.serving.alarm is not None)


class Assigner:
    """Assigns keys to systems, and writes each key and system once."""

    def __init__(
        self,
        store: Store,
        settings: ReleaseSettings,
        recorder: Recorder,
        steps: StepKeeper,
        outage: Unavailability | None = None,
    ) -> None:
        self._store, self._settings = store, settings
        self._recorder, self._steps, self._outage = recorder, steps, outage
        self._new_batches = 0  # in a row, as far as this process knows

    def assign(self, keys: Sequence[Key]) -> list[str]:
        """The system of each key; with a fallback the old one where nothing could be stored."""
        return [OLD if system is None else system for system in self.assign_stored(keys)]

    def assign_stored(
        self, keys: Sequence[Key], made_rows: MadeRows | None = None
    ) -> list[str | None]:
        """The system of each key; with a fallback None where nothing could be stored.

        `made_rows` is called with the keys and systems of which this call has made the row.
        """
        self._store.check_open()
        contents = [key_content(key) for key in keys]
        answers: dict[bytes, str] = {}
        try:
            self._assign(list(dict.fromkeys(contents)), answers, made_rows)
        except (ClosedError, TamperedError):
            raise
        except StoreError:
            if self._outage is None:
                raise
        return [answers.get(key) for key in contents]

    def _assign(
        self, waiting: list[bytes], answers: dict[bytes, str], made_rows: MadeRows | None
    ) -> None:
        """Add the systems of keys to the answers, once they are stored."""
        budget = Budget(self._store.deadline)
        places = positions(waiting, self._settings.salt_bytes)
        while waiting:
            moment = self._look(waiting, budget)
            if moment is None:
                continue  # something has changed just now
            arms = np.where(is_new(places, moment.share), NEW, OLD).tolist()
            systems = dict(zip(waiting, arms, strict=True))
            fresh = [key for key in waiting if systems[key] not in moment.known.get(key, {})]
            left = moment.keys_left(self._settings, moment.rows)
            now = waiting
            if left is not None and left <= len(fresh):
                fresh = fresh[:left]  # and with the last of them the step is over
                now = waiting[: waiting.index(fresh[-1]) + 1]
            if not fresh or self._write(moment, fresh, systems, budget):
                answers |= {key: systems[key] for key in now}
                if made_rows is not None:
                    made_rows([(key, systems[key]) for key in fresh])
                waiting, places = waiting[len(now) :], places[len(now) :]

    def _attempt(self, budget: Budget) -> AbstractContextManager[None]:
        """Within the time that a call has for the store, where something else can be done."""
        return nullcontext() if self._outage is None else self._outage.noticed(budget)

    def _remembered(self) -> AbstractContextManager[None]:
        """Without a limit of time; but the next calls know of a failure."""
        return nullcontext() if self._outage is None else self._outage.remembered()

    def _look(self, keys: Sequence[bytes], budget: Budget) -> _Moment | None:
        """What holds now; None if the next step had to begin, or an alarm to be raised."""
        with self._attempt(budget), self._store.reading() as connection:
            serving, lanes = read_serving(connection), read_lanes(connection)
            step = self._steps.of(connection, serving)
            due = self._steps.is_over(step, serving, lanes)
            serves = serving.alarm is None and step.share > 0
            silent = serves and not due and self._recorder.is_silent(connection, lanes)
            known = {} if due or silent else self._known(connection, keys)
        if due:
            with self._remembered():  # the rows of a large release take longer than a call
                self._steps.advance_if_due()
            return None
        if silent:
            with self._remembered():
                self._recorder.standing_alarm(step.number, serves=True)
            return None
        return _Moment(step, serving, taken(lanes), known)

    def _known(self, connection: sql.Connection, keys: Sequence[bytes]) -> Known:
        """The rows of keys; of some alone, where no key of the last batches had one."""
        is_batch = len(keys) >= KEYS_OF_A_BATCH
        if is_batch and self._new_batches >= NEW_BATCHES_IN_A_ROW:
            some = keys[:: max(1, len(keys) // KEYS_ASKED_FOR)]
            if not read_key_rows(connection, some):
                return {}
        known = read_key_rows(connection, keys)
        if known:
            self._new_batches = 0
        elif is_batch:
            self._new_batches += 1
        return known

    def _write(
        self,
        moment: _Moment,
        keys: Sequence[bytes],
        systems: dict[bytes, str],
        budget: Budget,
    ) -> bool:
        """Store the rows of keys; False, and nothing is stored, if something has changed.

        All who write at the same time do so by the same share, so each key has the same system for
        all of them, and they store keys in the same order: no two wait for each other. A key that
        has a row of its system already is refused by the database.
        """
        step, parts = moment.step, []
        for system, served in ((OLD, SAFE), (NEW, moment.step.number)):
            mine = sorted(key for key in keys if systems[key] == system)
            if mine:
                columns: dict[str, list[Any]] = {
                    "context": mine,
                    "action": [system.encode()] * len(mine),
                    "calibration": [True] * len(mine),
                    "log_safe": [0.0] * len(mine),
                    "log_optimized": [None] * len(mine),
                    "log_prob": [None] * len(mine),
                }
                parts.append((served, columns))

        def write(writer: Writer) -> bool:
            if writer.serving != moment.serving:
                return False
            left = moment.keys_left(self._settings, taken(writer.lanes))
            if left is not None and left < len(keys):
                return False  # others have stored keys meanwhile
            for served, columns in parts:
                writer.actions(columns, number=step.number, served=served, through_driver=True)
            return True

        try:
            with self._attempt(budget):
                return self._recorder.submit(write)
        except IntegrityError:  # one of the keys has a row
            self._new_batches = 0
            return False
