"""Storing actions before anyone carries them out, and their losses afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike, NDArray
from sqlalchemy.exc import IntegrityError

from tether._core.arrays import Booleans, Floats, Integers
from tether.rounds.checked_observations import (
    Losses,
    NewObservations,
    check_known,
    observations,
    withdrawals,
    without_observed,
    without_repeated,
)
from tether.rounds.errors import KeyUsedError, RoundOverError, StoreError
from tether.rounds.kept import Kept
from tether.rounds.limits import Limits
from tether.rounds.monitors import Monitors
from tether.rounds.outage import SPOOLED_KEY, Budget, Outage, spool_columns, unspooled_columns
from tether.rounds.store import queries, schema
from tether.rounds.store.codecs import RowCodecs
from tether.rounds.store.database import Store
from tether.rounds.store.group_commit import GroupCommit, Result
from tether.rounds.store.lanes import Lane, first_id, read_lanes
from tether.rounds.store.queries import null_for_nan, storable_text
from tether.rounds.store.rows import read_codecs
from tether.rounds.store.serving import Serving, read_serving
from tether.rounds.store.writer import Writer

FoundActions = tuple[Integers, NDArray[Any], Any, str, Integers]
"""Actions that are found by a key: ids, actions, contexts, failure and who took them."""
MAX_KEY_LENGTH = 200
"""How long an idempotency key may be."""


class NewActions(NamedTuple):
    """Actions to store: of one round, in these contexts, with their scores.

    `served` is who took them: one policy, or in a ramp one for each action. `alarm` is the alarm
    that stood when they were drawn, `key` the caller's idempotency key, `attempt` marks this call,
    and `failure` says why the safe policy took them. `cleared`, if given, is the last alarm that
    was cleared before the round began.
    """

    number: int
    served: int | Integers
    alarm: int | None
    contexts: Any
    actions: NDArray[Any]
    calibration: Booleans
    scores: Mapping[str, Floats | None]
    failure: str = ""
    key: str | None = None
    attempt: str | None = None
    cleared: int | None = None


class Recorder:
    """Writes actions and observations, and lets the monitors see them; for several threads."""

    def __init__(self, store: Store, monitors: Monitors, outage: Outage | None = None) -> None:
        self._store, self._monitors, self.outage = store, monitors, outage
        self._commits = GroupCommit(store, self._finish)
        self._lock = Lock()
        self._codecs = None if outage is None else _known_codecs(store)
        self._serving: Serving | None = None
        self._unseen: str | None = None

    def close(self) -> None:
        """Release the spool, if there is one."""
        if self.outage is not None:
            self.outage.close()

    def deliver(self) -> None:
        """Put rows that wait in the spool into the store."""
        self._store.check_open()
        if self.outage is not None:
            self.outage.deliver()

    def deliver_some(self, budget: Budget | None) -> None:
        """Put some of the rows that wait into the store, in what is left of a call's time."""
        if self.outage is not None and budget is not None and self.outage.spool.waiting:
            with suppress(StoreError), budget.spent():
                self.outage.deliver(some=True)

    def attempt(self, budget: Budget | None) -> AbstractContextManager[None]:
        """Within the time that a call has for the store, where something else can be done."""
        if self.outage is None or budget is None:
            return nullcontext()
        return self.outage.noticed(budget)

    @property
    def is_retired(self) -> bool:
        """Whether the present round was retired, as it was last seen."""
        return self._serving is not None and self._serving.retired

    def standing_alarm(self, number: int, *, serves: bool, known: bool = False) -> int | None:
        """The alarm that stands; if a round's policy `serves`, silence raises one.

        If `known`, as it was last seen: storing the actions checks it again.
        """
        if known and self._serving is not None:
            return self._serving.alarm
        with self._store.reading() as connection:
            self._serving = read_serving(connection)
            alarm = self._serving.alarm
            silence = ""
            if serves and alarm is None:
                silence = self._monitors.silence(Kept(connection), read_lanes(connection))
        if not silence:
            return alarm
        with self._store.writing(exclusive=True) as writer:
            message = self._monitors.silence(Kept(writer.connection), writer.lanes)
            if writer.serving.alarm is None and message:  # nobody was faster
                queries.write_alarm(writer, number, "silence", message)
            self._serving = read_serving(writer.connection)
        return self._serving.alarm

    def find(self, key: str, contexts: Any) -> FoundActions | None:
        """What was stored under a key; None if nothing was."""
        table, action = schema.entries, schema.actions
        with self._store.reading() as connection:
            query = sql.select(table).where(table.c.key.in_([key, f"{key}{SPOOLED_KEY}"]))
            entries = connection.execute(query.order_by(sql.func.length(table.c.key))).fetchall()
            if not entries:
                return None
            entry = entries[-1]  # what was spooled was returned
            start = first_id(entry.lane)
            wanted = action.c.id.between(start + entry.first, start + entry.last)
            coded = (action.c.context, action.c.candidates, action.c.action)
            query = sql.select(action.c.id, *coded, action.c.served).where(wanted)
            rows = connection.execute(query.order_by(action.c.id)).fetchall()
            ids, stored, candidates, actions, served = zip(*rows, strict=True)
            codecs = read_codecs(connection)
        _check_same_contexts(codecs, key, contexts, stored)
        decoded = codecs.decode_contexts(stored, candidates)
        taken = codecs.action.decode(actions)
        return np.array(ids), taken, decoded, entry.note or "", np.array(served)

    def find_spooled(self, key: str, contexts: Any) -> FoundActions | None:
        """What waits in the spool under a key; None if nothing does."""
        record = None if self.outage is None else self.outage.find(key)
        if record is None or self.outage is None or self._codecs is None:
            return None
        columns, codecs = unspooled_columns(record), self._codecs
        _check_same_contexts(codecs, key, contexts, columns["context"])
        start = first_id(self.outage.spool.lane) + record.first
        ids = np.arange(start, start + record.count)
        candidates = columns.get("candidates", [None] * record.count)
        decoded = codecs.decode_contexts(columns["context"], candidates)
        actions = codecs.action.decode(columns["action"])
        return ids, actions, decoded, record.columns["failure"], np.zeros(len(ids), np.int64)

    def spool_actions(self, new: NewActions) -> Integers:
        """Keep actions of the safe policy in the spool; returns their ids."""
        if self.outage is None or self._codecs is None:
            raise StoreError(
                f"{self._store.name} is unavailable, and nothing was stored in it before: the "
                f"first actions of a run cannot be spooled"
            )
        entry = {
            "round": new.number,
            "key": new.key,
            "attempt": new.attempt,
            "failure": storable_text(new.failure),
        }
        columns = spool_columns(self._columns(self._codecs, new), **entry)
        return self.outage.append(columns, len(new.actions))

    def write_actions(self, new: NewActions) -> Integers | None:
        """Store actions with their scores; returns their ids.

        Returns None, and stores nothing, if the alarm that stands is not the one that the caller
        knew of, there was silence for too long, or the key was used meanwhile.
        """
        columns = self._columns(self._find_codecs(new.contexts, new.actions), new)
        unseen: str | None = None
        is_safe, served = not np.any(new.served), _served_by(new)

        def write(writer: Writer) -> Integers | None:
            nonlocal unseen
            serving = writer.serving
            check_latest(serving, new.number)
            is_over = new.cleared is not None and serving.cleared != new.cleared
            if is_over and serving.alarm is None:  # else the next one begins once that is cleared
                raise RoundOverError(f"round {new.number} is over: its alarm was cleared")
            if serving.alarm != new.alarm or _is_used(writer.connection, new.key):
                return None
            if not is_safe:
                kept = Kept(writer.connection)
                if serving.retired or self._monitors.silence(kept, writer.lanes):
                    return None
                if not self._store.single_writer:
                    unseen = self._monitors.unseen(kept, writer.lanes)
            ids = writer.actions(
                columns,
                number=new.number,
                served=served,
                key=new.key,
                attempt=new.attempt,
                failure=storable_text(new.failure),
            )
            return np.array(ids)

        try:
            ids = self._commits.submit(write)
        except IntegrityError:  # another process was faster with the same key
            if new.key is None:
                raise
            return None
        if self._monitors.monitors_contexts or self._is_left_alone(unseen):
            self.catch_up()
        return ids

    def _is_left_alone(self, unseen: str | None) -> bool:
        """Whether losses that wait for the monitors waited in the last call already.

        Whoever stored them lets the monitors see them, unless it was killed before it could.
        """
        left_alone = unseen is not None and unseen == self._unseen
        self._unseen = unseen
        return left_alone

    def _columns(self, codecs: RowCodecs, new: NewActions) -> dict[str, list[Any]]:
        """Actions as the database takes them."""
        scores = {**new.scores, "context_score": self._monitors.scores(new.contexts)}
        nothing: list[Any] = [None] * len(new.actions)
        columns: dict[str, list[Any]] = {
            name: nothing if values is None else null_for_nan(values)
            for name, values in scores.items()
        }
        columns["calibration"] = new.calibration.tolist()
        if not isinstance(new.served, int):
            columns["served"] = new.served.tolist()
        return columns | codecs.encode(new.contexts, new.actions)

    def is_silent(self, connection: sql.Connection, lanes: Mapping[int, Lane]) -> bool:
        """Whether the run has been without one of its losses for too long."""
        return bool(self._monitors.silence(Kept(connection), lanes))

    def submit(self, write: Callable[[Writer], Result]) -> Result:
        """Call `write` in a transaction, together with what other threads write."""
        return self._commits.submit(write)

    def observe(
        self,
        ids: ArrayLike,
        losses: Losses,
        rewards: ArrayLike | None,
        limits: Limits,
        *,
        keep_first: bool = False,
    ) -> NewObservations:
        """Store losses and rewards; those that are stored already change nothing.

        If `keep_first`, other ones for them are skipped. Returns those that were new.
        """
        rewarded_together = rewards is not None and len(limits) > 1  # a reward is the action's
        return self._write_observations(
            observations(ids, losses, rewards, limits),
            alone=rewarded_together,
            keep_first=keep_first,
        )

    def withdraw(self, ids: ArrayLike, reason: str, actor: str) -> None:
        """Store that actions were never carried out, why, and who says so."""
        self._write_observations(withdrawals(ids, storable_text(reason)), actor)

    def _write_observations(
        self,
        given: NewObservations,
        actor: str = "",
        *,
        alone: bool = False,
        keep_first: bool = False,
    ) -> NewObservations:
        self.deliver()

        def write(writer: Writer) -> NewObservations:
            check_known(writer.lanes, given.ids)
            left = without_observed if keep_first else without_repeated
            new = left(writer.connection, given)
            if not len(new):
                return new
            writer.observations(new.columns())
            if actor:
                count = f"{len(new):,} actions: {given.reason}"
                queries.write_audit(writer, "withdraw", actor, count)
            return new

        try:
            stored = self._submit(write, exclusive=bool(actor) or alone)
        except IntegrityError:  # another process stored some of them meanwhile: compare
            stored = self._submit(write, exclusive=True)
        self.catch_up()
        return stored

    def catch_up(self) -> None:
        """Let the monitors see what is stored, where that is not part of storing it.

        If the store fails now, what was stored is stored, and the next call catches up.
        """
        if not self._store.single_writer:
            with suppress(StoreError):
                self._monitors.catch_up(self._store)

    def _submit(self, write: Callable[[Writer], Result], *, exclusive: bool) -> Result:
        if not exclusive:
            return self._commits.submit(write)
        with self._store.writing(exclusive=True) as writer:
            result = write(writer)
            self._finish(writer)
        return result

    def _finish(self, writer: Writer) -> None:
        if self._store.single_writer:
            self._monitors.update(writer)

    def known_codecs(self) -> RowCodecs | None:
        """The stored codecs; None before the first rows."""
        if self._codecs is None:
            self._codecs = _known_codecs(self._store)
        return self._codecs

    def _find_codecs(self, contexts: Any, actions: NDArray[Any]) -> RowCodecs:
        """The stored codecs of contexts and actions; fixed by these rows if they are the first."""
        with self._lock:
            if self._codecs is None:
                self._codecs = _stored_codecs(self._store, contexts, actions)
            return self._codecs


def _served_by(new: NewActions) -> int:
    """Who took the actions of a call: the round's number where several policies did."""
    if isinstance(new.served, int):
        return new.served
    by = np.unique(new.served)
    return int(by[0]) if len(by) == 1 else new.number


def check_latest(serving: Serving, number: int) -> None:
    """Refuse actions of a round that is over."""
    if serving.round != number:
        raise RoundOverError(
            f"round {number} is over: round {serving.round} has begun; act in `run.round`"
        )


def checked_key(key: str | None) -> str | None:
    """An idempotency key: text of a sensible length."""
    if key is None:
        return None
    is_text = isinstance(key, str) and 0 < len(key) <= MAX_KEY_LENGTH
    if not is_text or storable_text(key) != key or key.endswith(SPOOLED_KEY):
        raise ValueError(f"key must be text of 1 to {MAX_KEY_LENGTH} characters, got {key!r}")
    return key


def _is_used(connection: sql.Connection, key: str | None) -> bool:
    table = schema.entries
    if key is None:
        return False
    return connection.scalar(sql.select(table.c.number).where(table.c.key == key)) is not None


def _check_same_contexts(codecs: RowCodecs, key: str, contexts: Any, stored: Any) -> None:
    """Refuse a key that was used for something else."""
    given = codecs.context.encode("contexts", contexts)
    if given != [None if each is None else bytes(each) for each in stored]:
        raise KeyUsedError(f"key {key!r} was used for other contexts: use a key once")


def _known_codecs(store: Store) -> RowCodecs | None:
    """The stored codecs; None before the first rows."""
    with store.reading() as connection:
        settings = queries.read_settings(connection)
    return RowCodecs.from_dict(settings) if "actions" in settings else None


def _stored_codecs(store: Store, contexts: Any, actions: NDArray[Any]) -> RowCodecs:
    with store.reading() as connection:
        settings = queries.read_settings(connection)
    if "actions" not in settings:
        with store.writing(exclusive=True) as writer:
            settings = queries.read_settings(writer.connection)
            if "actions" not in settings:
                first = RowCodecs.of(contexts, actions)
                queries.write_settings(writer, first.to_dict())
                return first
    return RowCodecs.from_dict(settings)
