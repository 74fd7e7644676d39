"""Creating a release, and beginning its steps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import NamedTuple
from uuid import uuid4

import sqlalchemy as sql

from tether.rounds.errors import NoStoreError, StoreError, as_tampering
from tether.rounds.kept import Kept
from tether.rounds.monitors import Monitors
from tether.rounds.releases.arm_rows import ArmRows
from tether.rounds.releases.key_rows import KEY_CODECS, create_key_index
from tether.rounds.releases.next_step import next_step
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.short_first_step import short_first_step
from tether.rounds.releases.step import Step, moment
from tether.rounds.run_settings import RELEASE_KIND, check_kind
from tether.rounds.silence import end_silence, taken
from tether.rounds.store import schema
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.lanes import Lane, read_lanes
from tether.rounds.store.queries import (
    RUN_SETTING,
    read_round,
    read_settings,
    write_audit,
    write_settings,
)
from tether.rounds.store.serving import Serving, read_serving
from tether.rounds.store.writer import Writer

logger = logging.getLogger("tether.rounds")

ADVANCE = "advance"
"""The act in the audit trail that ends a step."""


class StepOverError(ValueError):
    """A step that was to be ended has ended already."""


class ByHand(NamedTuple):
    """Who ends which step, and why."""

    step: int
    reason: str
    actor: str


def open_store(
    url: str | Path,
    given: ReleaseSettings | None,
    *,
    deadline: float,
    sign: Callable[[bytes], str] | None,
) -> Store:
    """The store of a release; settings that are refused leave no empty one behind."""
    if given is not None:
        try:
            given.check_first_step()
        except ValueError as refused:
            try:  # a store that is there may have a log of the old system
                return Store(url, create=False, deadline=deadline, sign=sign)
            except NoStoreError:
                raise refused from None
    return Store(url, create=given is not None, deadline=deadline, sign=sign)


def open_release(
    store: Store,
    given: ReleaseSettings | None,
    free: tuple[str, ...],
    tell: Callable[[str], None],
) -> ReleaseSettings:
    """The settings of a release, which is created with its first step if the store is empty.

    `free` settings were not given, and are those of the store if it has any. What is doubtful about
    a new release goes to `tell`.
    """
    with store.reading() as connection:
        stored = read_settings(connection)
    if not stored and given is not None:
        given.check_first_step()
        if doubt := short_first_step(given):
            tell(doubt)
        with store.writing(exclusive=True) as writer:
            stored = read_settings(writer.connection)
            if not stored:
                entries = {**given.to_dict(), RUN_SETTING: uuid4().hex, **KEY_CODECS.to_dict()}
                write_settings(writer, entries)
                create_key_index(writer.connection)
                write_step(writer, given, ArmRows(list(given.limits)), None, Serving(0, None))
                kept = Kept(writer.connection)
                end_silence(kept, given.limits, writer.lanes)
                kept.save()
                return given
    if not stored:
        raise StoreError(f"{store.name} holds no release yet: name its guardrails to create one")
    check_kind(stored, RELEASE_KIND, store.name)
    settings = ReleaseSettings.from_dict(stored)
    if given is not None:
        given.check_same(settings, store.name, free=free)
    return settings


def write_step(
    writer: Writer,
    settings: ReleaseSettings,
    rows: ArmRows,
    previous: Step | None,
    serving: Serving,
) -> Step:
    """Begin the next step, in a transaction without any other writer."""
    rows.refresh(writer.connection)
    step = next_step(
        settings,
        rows,
        previous,
        alarm=serving.alarm,
        cleared=serving.cleared,
        seen=rows.seen,
        begun=moment().isoformat(),
    )
    writer.record(schema.rounds, step.to_row())
    return step


def read_step(connection: sql.Connection, number: int) -> Step:
    """A step that is stored."""
    row = read_round(connection, number)
    with as_tampering(f"step {number}"):
        return Step.from_row(row)


class StepKeeper:
    """The present step of a release, and the next one; for several threads."""

    def __init__(self, store: Store, settings: ReleaseSettings, monitors: Monitors) -> None:
        self._store, self._settings, self._monitors = store, settings, monitors
        self._rows = ArmRows(list(settings.limits))
        self._lock = RLock()
        self._known: Step | None = None

    def of(self, connection: sql.Connection, serving: Serving) -> Step:
        """The step that serves; a step never changes, so it is read once."""
        known = self._known
        if known is None or known.number != serving.round:
            known = self._known = read_step(connection, serving.round)
        return known

    def present(self) -> tuple[Step, Serving]:
        """The present step, and what serves."""
        with self._store.reading() as connection:
            serving = read_serving(connection)
            return self.of(connection, serving), serving

    def share_in_force(self) -> float:
        """The share of the present step, unless an alarm stands or was only just cleared."""
        step, serving = self.present()
        return step.share if serving.alarm is None and serving.cleared == step.cleared else 0.0

    def is_over(self, step: Step, serving: Serving, lanes: dict[int, Lane]) -> bool:
        """Whether the next step is due."""
        is_halted = serving.alarm is not None
        return step.is_over(
            self._settings, taken(lanes), serving.cleared, moment(), is_halted=is_halted
        )

    def advance(self, act: ByHand | None = None) -> Step:
        """Begin the next step by hand; an act is stored in the audit trail with it."""
        by_itself = {
            f"{self._settings.keys_per_step} keys": self._settings.keys_per_step,
            f"{self._settings.step_seconds} seconds": self._settings.step_seconds,
        }
        for length, each in by_itself.items():
            if each is not None and self._settings.confidence is None:
                raise ValueError(
                    f"the steps of this release end by themselves, after {length}: a step that is "
                    f"ended by hand could be ended because its losses look good"
                )
        return self._begin(due_only=False, act=act)

    def advance_if_due(self) -> None:
        """Begin the next step, unless another process has."""
        self._begin(due_only=True)

    def _begin(self, *, due_only: bool, act: ByHand | None = None) -> Step:
        with self._lock:
            with self._store.reading(patience=PATIENCE_FOR_ROWS) as connection:
                self._rows.refresh(connection)
            with self._store.writing(exclusive=True, patience=PATIENCE_FOR_ROWS) as writer:
                self._monitors.update(writer)
                serving = read_serving(writer.connection)
                step = self.of(writer.connection, serving)
                if due_only and not self.is_over(step, serving, read_lanes(writer.connection)):
                    return step
                if act is not None and act.step != step.number:
                    raise StepOverError(
                        f"step must be the present one, {step.number}, got {act.step}"
                    )
                made = write_step(writer, self._settings, self._rows, step, serving)
                if act is not None:
                    write_audit(writer, ADVANCE, act.actor, act.reason, made.number)
            logger.info(
                "step %d of %s begins: share %.4g", made.number, self._store.name, made.share
            )
            return made
