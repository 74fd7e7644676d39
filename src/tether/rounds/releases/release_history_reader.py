"""Reading the history of a release from its store: all of it, and then what is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from tether.rounds.errors import StoreError, as_tampering
from tether.rounds.history import AuditRecord, Estimate
from tether.rounds.history_reader import alarm_record, mean_losses
from tether.rounds.losses_seen import OLD_SUMS, LossesSeen
from tether.rounds.policy_registry import SAFE
from tether.rounds.releases.arm_rows import Arm
from tether.rounds.releases.release_history import ReleaseHistory, StepRecord, SystemRecord
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.step import Step
from tether.rounds.releases.unstored_answers import count_unstored
from tether.rounds.run_settings import RELEASE_KIND, check_kind
from tether.rounds.store import schema
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.opened_store import opened_store
from tether.rounds.store.queries import read_added, read_settings
from tether.rounds.store.serving import read_serving
from tether.rounds.store.writer import ACTIONS


def read_release(store: str | Path | Store) -> ReleaseHistory:
    """Read the history of the release in a store.

    Parameters
    ----------
    store : str, pathlib.Path or Store
        The path or URL of an existing store, or an open one.

    Returns
    -------
    ReleaseHistory
        Settings, steps and alarms so far.

    Raises
    ------
    ValueError
        If the store holds something else.
    StoreError
        If there is no store, it is empty, or it cannot be read.
    """
    with (
        opened_store(store) as opened,
        opened.reading(patience=PATIENCE_FOR_ROWS) as connection,
    ):
        stored = read_settings(connection)
        if not stored:
            raise StoreError(f"{opened.name} holds no release yet")
        check_kind(stored, RELEASE_KIND, opened.name)
        settings = ReleaseSettings.from_dict(stored)
        losses = LossesSeen(connection, settings)
        losses.update(watch=False)  # those that nobody has added to the sums yet
        return ReleaseReader(opened.name, settings).read(connection, losses)


class ReleaseReader:
    """Reads the history of one release again and again, each time only what is new of its rows.

    Steps, alarms, acts and rows are only ever added. Of the sums those are decoded whose text has
    changed. After an error it must not be used again.
    """

    def __init__(self, store: str, settings: ReleaseSettings) -> None:
        self._store, self._settings = store, settings
        self._steps: list[Step] = []
        self._alarms: list[dict[str, Any]] = []
        self._audit: list[AuditRecord] = []
        self._counted: dict[int, int] = {}  # the last entry of each lane that was counted
        self._rows: Counter[Arm] = Counter()
        self._means: dict[tuple[int | None, str], tuple[str, Mapping[str, Estimate]]] = {}

    @property
    def steps(self) -> list[Step]:
        """The steps that were read."""
        return self._steps

    def read(self, connection: sql.Connection, losses: LossesSeen) -> ReleaseHistory:
        """The history as of a transaction; `losses` have been updated in it."""
        with as_tampering("the table of steps"):
            self._steps += map(
                Step.from_row, read_added(connection, schema.rounds, len(self._steps))
            )
        acts = read_added(connection, schema.audit, len(self._audit))
        self._audit += (AuditRecord(**row) for row in acts)
        self._alarms += read_added(connection, schema.alarms, len(self._alarms))
        self._count_rows(connection, losses)
        losses.load_sums(step.number for step in self._steps)
        settings, serving, last = self._settings, read_serving(connection), self._steps[-1]
        is_stopped = serving.alarm is not None or serving.cleared > last.cleared
        audit = tuple(self._audit)
        return ReleaseHistory(
            store=self._store,
            created=settings.created,
            limits=settings.limits,
            target=settings.target,
            confidence=settings.confidence,
            length=_length(settings),
            wait=settings.wait,
            share=0.0 if is_stopped else last.share,
            steps=tuple(
                self._record(step, losses, stopped_by)
                for step, stopped_by in zip(self._steps, self._first_alarms(), strict=True)
            ),
            old_losses=self._mean_losses(losses, None),
            alarms=tuple(alarm_record(row, audit) for row in self._alarms),
            audit=audit,
            unstored=count_unstored(connection),
            step_seconds=settings.step_seconds,
            keys_per_step=settings.keys_per_step,
        )

    def _first_alarms(self) -> Iterator[int | None]:
        """The first alarm that stood in each step, if any did.

        While one stands a step does not end, unless it collects rows of the old system. So the
        alarms of a step are those that were cleared at its end and not at its beginning.
        """
        last = self._alarms[-1]["number"] if self._alarms else 0
        cleared = [*(step.cleared for step in self._steps), last]
        for before, after in pairwise(cleared):
            yield before + 1 if after > before else None

    def _record(self, step: Step, losses: LossesSeen, stopped_by: int | None) -> StepRecord:
        number = step.number
        return StepRecord(
            number=number,
            begun=step.begun,
            calibration=step.ramp_share,
            window=step.window,
            ramp=step.ramp,
            cleared=step.cleared,
            old=SystemRecord(
                self._rows[Arm(number, False)], self._mean_losses(losses, number, OLD_SUMS)
            ),
            new=SystemRecord(self._rows[Arm(number, True)], self._mean_losses(losses, number)),
            stopped_by=stopped_by,
            window_from=step.window_from,
        )

    def _count_rows(self, connection: sql.Connection, losses: LossesSeen) -> None:
        """Count rows by step and system, from the entries of the hash chain."""
        entry, count = schema.entries, schema.entries.c.last - schema.entries.c.first + 1
        query = sql.select(entry.c.round, entry.c.served, sql.func.sum(count)).where(
            entry.c.kind == ACTIONS
        )
        for number, lane in losses.lanes.items():
            before = self._counted.get(number, 0)
            if number < 0 or lane.last_entry == before:
                continue
            fresh = (entry.c.lane == number, entry.c.number > before)
            grouped = query.where(*fresh).group_by(entry.c.round, entry.c.served)
            for step, served, rows in connection.execute(grouped):
                self._rows[Arm(step, served != SAFE)] += int(rows)
            self._counted[number] = lane.last_entry

    def _mean_losses(
        self, losses: LossesSeen, number: int | None, part: str = "round"
    ) -> Mapping[str, Estimate]:
        """The means of some sums, computed once for each text that is kept of them."""
        text, known = losses.unchanged(number, part), self._means.get((number, part))
        if text is not None and known is not None and known[0] == text:
            return known[1]
        means = mean_losses(losses.sums(number, part))
        if text is not None:
            self._means[number, part] = (text, means)
        return means


def _length(settings: ReleaseSettings) -> str:
    if settings.keys_per_step is not None:
        return f"{settings.keys_per_step:,} keys"
    if settings.step_seconds is not None:
        return f"{settings.step_seconds:g} seconds"
    return "by hand"
