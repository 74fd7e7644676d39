"""Assigning keys: by their hash and the share in force, and stored before anyone is told.

With a fallback the old system answers the keys for which the store does not answer in time. They
get no row: the unit counts nowhere, and the row of the key begins with a later unit.

A step that is over is followed by the next one before a key is assigned. A service lets another
thread begin it, since that reads all rows: until then keys belong to the present step, or to the
old system if the step was ended by an alarm that is cleared.
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
NEW_CALLS_IN_A_ROW, MOST_NEW_CALLS = 20, 100_000
"""After so many calls with new keys alone a service expects the next ones to be new too; twice as
many each time that they were not, up to a limit."""

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
        is_stopped = self.serving.alarm is not None or self.serving.cleared != self.step.cleared
        return 0.0 if is_stopped else self.step.share

    def keys_left(self, settings: ReleaseSettings, rows: int) -> int | None:
        """How many keys still belong to the step; None if it is not ended by their number."""
        return self.step.keys_left(settings, rows, is_halted=self.serving.alarm is not None)


class Assigner:
    """Assigns keys to systems, and writes each key and system once.

    `when_due`, if given, is told that the present step is over, and lets another thread begin the
    next one.
    """

    def __init__(
        self,
        store: Store,
        settings: ReleaseSettings,
        recorder: Recorder,
        steps: StepKeeper,
        outage: Unavailability | None = None,
        when_due: Callable[[], None] | None = None,
    ) -> None:
        self._when_due = when_due
        self._store, self._settings = store, settings
        self._recorder, self._steps, self._outage = recorder, steps, outage
        self._new_batches = 0  # in a row, as far as this process knows
        self._new_calls, self._new_calls_needed = 0, NEW_CALLS_IN_A_ROW
        self._last: _Moment | None = None

    def assign(self, keys: Sequence[Key]) -> list[str]:
        """The system of each key; with a fallback the old one where nothing could be stored."""
        return [OLD if system is None else system for system in self.assign_stored(keys)]

    def assign_stored(
        self,
        keys: Sequence[Key],
        made_rows: MadeRows | None = None,
        is_wanted: Callable[[], bool] | None = None,
    ) -> list[str | None]:
        """The system of each key; with a fallback None where nothing could be stored.

        `made_rows` is called with the keys and systems of which this call has made the row. Once it
        is not wanted any more nothing is stored, unless that is being committed just then.
        """
        self._store.check_open()
        contents = [key_content(key) for key in keys]
        answers: dict[bytes, str] = {}
        try:
            self._assign(list(dict.fromkeys(contents)), answers, made_rows, is_wanted or _always)
        except (ClosedError, TamperedError):
            raise
        except StoreError:
            if self._outage is None:
                raise
        return [answers.get(key) for key in contents]

    def _assign(
        self,
        waiting: list[bytes],
        answers: dict[bytes, str],
        made_rows: MadeRows | None,
        is_wanted: Callable[[], bool],
    ) -> None:
        """Add the systems of keys to the answers, once they are stored."""
        budget = Budget(self._store.deadline)
        places = positions(waiting, self._settings.salt_bytes)
        while waiting and is_wanted():
            expected = self._expected()
            moment = expected or self._look(waiting, budget)
            if moment is None:
                continue  # something has changed just now
            arms = np.where(is_new(places, moment.share), NEW, OLD).tolist()
            systems = dict(zip(waiting, arms, strict=True))
            fresh = [key for key in waiting if systems[key] not in moment.known.get(key, {})]
            left = self._keys_left(moment, moment.rows)
            now = waiting
            if left is not None and left <= len(fresh):
                fresh = fresh[:left]  # and with the last of them the step is over
                now = waiting[: waiting.index(fresh[-1]) + 1]
            is_expected = expected is not None
            if not fresh or self._write(
                moment, fresh, systems, budget, is_wanted, is_expected=is_expected
            ):
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

    def _expected(self) -> _Moment | None:
        """What held in the last call, where nothing speaks against new keys; else None.

        Storing them checks it: who serves, and that no key has a row.
        """
        is_usual = self._new_calls >= self._new_calls_needed
        return self._last if is_usual and self._when_due is not None else None

    def _keys_left(self, moment: _Moment, rows: int) -> int | None:
        """How many keys still belong to the step; None if as many as come until it is ended."""
        return moment.keys_left(self._settings, rows) if self._when_due is None else None

    def _look(self, keys: Sequence[bytes], budget: Budget) -> _Moment | None:
        """What holds now; None if the next step had to begin, or an alarm to be raised."""
        with self._attempt(budget), self._store.reading() as connection:
            serving, lanes = read_serving(connection), read_lanes(connection)
            step = self._steps.of(connection, serving)
            due = self._steps.is_over(step, serving, lanes)
            if due and self._when_due is not None:
                self._when_due()
                due = False
            serves = _Moment(step, serving, 0, {}).share > 0
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
        self._new_calls = 0 if known else self._new_calls + 1
        self._last = _Moment(step, serving, 0, {})
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
        is_wanted: Callable[[], bool],
        *,
        is_expected: bool,
    ) -> bool:
        """Store the rows of keys; False, and nothing is stored, if something has changed.

        If what holds `is_expected`, and was not looked up, what else `_look` finds is found here.

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
            if writer.serving != moment.serving or not is_wanted():
                return False
            if is_expected and self._is_other(moment, writer):
                return False
            left = self._keys_left(moment, taken(writer.lanes))
            if left is not None and left < len(keys):
                return False  # others have stored keys meanwhile
            for served, columns in parts:
                writer.actions(columns, number=step.number, served=served, through_driver=True)
            return True

        self._last = None  # unless this succeeds
        try:
            with self._attempt(budget):
                is_stored = self._recorder.submit(write)
        except IntegrityError:  # one of the keys has a row
            self._new_batches = self._new_calls = 0
            if is_expected:
                self._new_calls_needed = min(2 * self._new_calls_needed, MOST_NEW_CALLS)
            return False
        if is_stored:
            self._last = _Moment(moment.step, moment.serving, 0, {})
        return is_stored

    def _is_other(self, moment: _Moment, writer: Writer) -> bool:
        """Whether a step that is over, or silence, has to be looked at; a step may be told of."""
        if self._when_due is not None and self._steps.is_over(
            moment.step, moment.serving, writer.lanes
        ):
            self._when_due()
        return moment.share > 0 and self._recorder.is_silent(writer.connection, writer.lanes)


def _always() -> bool:
    return True
