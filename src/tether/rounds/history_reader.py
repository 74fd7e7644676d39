"""Reading the history of a run from its store: all of it, and then what is new.

It comes from sums that are kept, not from the rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sql

from tether.control.calibration import Calibration
from tether.monitor import RiskMonitor
from tether.rounds.cleared_alarms import RAMP_OVER, last_cleared, present_note
from tether.rounds.errors import StoreError, as_tampering
from tether.rounds.history import Alarm, AuditRecord, Estimate, History, RoundRecord
from tether.rounds.kept_sums import RewardSums, Sums
from tether.rounds.losses_seen import POLICY_SUMS, LossesSeen
from tether.rounds.policy_registry import SAFE
from tether.rounds.ramps.ramp_record import RampRecord
from tether.rounds.run_settings import ROUNDS_KIND, check_kind
from tether.rounds.settings import Settings
from tether.rounds.store import schema
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.lanes import first_id
from tether.rounds.store.opened_store import opened_store
from tether.rounds.store.queries import calibration_from_json, read_added, read_settings
from tether.rounds.store.serving import RESUME, RETIRE
from tether.rounds.store.writer import ACTIONS

NORMAL_QUANTILE = 1.96
"""Of the standard normal distribution, for intervals of rewards at 95 %."""


def read_history(store: str | Path | Store) -> History:
    """The history of the run in a store; no policy is needed to read it.

    Parameters
    ----------
    store : str, pathlib.Path or Store
        The path or URL of an existing store, or an open one.

    Returns
    -------
    History
        Settings, rounds and alarms so far.

    Raises
    ------
    StoreError
        If there is no store, it holds no run, or it cannot be read.
    """
    with opened_store(store) as opened:
        return _read_history(opened)


def _read_history(store: Store) -> History:
    with store.reading(patience=PATIENCE_FOR_ROWS) as connection:
        stored = read_settings(connection)
        if not stored:
            raise StoreError(f"{store.name} holds no run of tether yet")
        check_kind(stored, ROUNDS_KIND, store.name)
        settings = Settings.from_dict(stored)
        losses = LossesSeen(connection, settings)
        losses.update(watch=False)  # those that nobody has added to the sums yet
        return RunReader(store.name, settings).read(connection, losses)


@dataclass
class _Counts:
    """How many actions of a round there are, and of these, which the safe policy took.

    `failures` are the last messages in each lane of why it had to.
    """

    rows: int = 0
    safe: int = 0
    calibration: int = 0
    fallback: int = 0
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def failure(self) -> str:
        """That of the last lane that has one."""
        return self.failures[max(self.failures)] if self.failures else ""


class StoredRound(NamedTuple):
    """A round as it was stored, with what is read from its row once."""

    row: dict[str, Any]
    calibration: Calibration | None
    ramp: RampRecord | None


class _Outcome(NamedTuple):
    """What sums say: the mean losses, how many were observed or withdrawn, the mean reward."""

    losses: Mapping[str, Estimate]
    observed: int
    withdrawn: int
    reward: Estimate | None


class RunReader:
    """Reads the history of one run again and again, each time only what is new of its rows.

    Rounds, alarms, acts and rows are only ever added. Of the sums those are decoded whose text has
    changed. After an error it must not be used again.
    """

    def __init__(self, store: str, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._rounds: list[StoredRound] = []
        self._alarms: list[dict[str, Any]] = []
        self._audit: list[AuditRecord] = []
        self._counted: dict[int, tuple[int, int]] = {}  # the last entry and action of each lane
        self._counts: defaultdict[int, _Counts] = defaultdict(_Counts)
        self._served: Counter[tuple[int, int]] = Counter()
        self._outcomes: dict[tuple[int | None, str], tuple[str, _Outcome]] = {}

    @property
    def present(self) -> StoredRound | None:
        """The present round as it is stored; None before the first."""
        return self._rounds[-1] if self._rounds else None

    def read(self, connection: sql.Connection, losses: LossesSeen) -> History:
        """The history as of a transaction; `losses` have been updated in it."""
        settings = self._settings
        fresh = read_added(connection, schema.rounds, len(self._rounds))
        self._rounds += (_stored_round(row, is_ramp=settings.is_ramp) for row in fresh)
        acts = read_added(connection, schema.audit, len(self._audit))
        self._audit += (AuditRecord(**row) for row in acts)
        self._alarms += read_added(connection, schema.alarms, len(self._alarms))
        self._count(connection, losses)
        losses.load_sums(each.row["number"] for each in self._rounds)
        audit, safe = tuple(self._audit), self._outcome(losses, None)
        retired = {each.subject for each in audit if each.act == RETIRE}
        return History(
            store=self._store,
            created=settings.created,
            safe=settings.safe,
            limits=settings.limits,
            family=settings.family,
            test_weight=settings.test_weight,
            against=settings.against,
            missing=settings.missing,
            calibration_share=settings.calibration_share,
            rounds=self._records(losses, retired, last_cleared(audit)),
            alarms=tuple(alarm_record(row, audit) for row in self._alarms),
            safe_losses=safe.losses,
            safe_reward=safe.reward,
            shortlist=settings.shortlist,
            target=settings.target,
            confidence=settings.confidence,
            audit=audit,
            actions_per_step=settings.actions_per_step,
        )

    def _records(
        self, losses: LossesSeen, retired: set[int | None], cleared: int
    ) -> tuple[RoundRecord, ...]:
        """The rounds; the present one with what cleared alarms mean for it."""
        found = [self._record(each, losses, retired) for each in self._rounds]
        if found:
            ramp = self._rounds[-1].ramp
            if ramp is None:
                found[-1] = replace(found[-1], note=present_note(found[-1].note, cleared))
            elif ramp.step is not None and ramp.step.cleared < cleared:
                found[-1] = replace(found[-1], over=True, note=RAMP_OVER)
        return tuple(found)

    def _record(
        self, stored: StoredRound, losses: LossesSeen, retired: set[int | None]
    ) -> RoundRecord:
        row, number = stored.row, stored.row["number"]
        counts, outcome = self._counts[number], self._outcome(losses, number)
        record = RoundRecord(
            number=number,
            policy=row["policy"],
            begun=row["begun"],
            calibration=stored.calibration,
            note=row["note"],
            rows=counts.rows,
            safe_rows=counts.safe,
            calibration_rows=counts.calibration,
            observed=outcome.observed,
            withdrawn=outcome.withdrawn,
            losses=outcome.losses,
            reward=outcome.reward,
            fallback_rows=counts.fallback,
            failure=counts.failure,
            retired=number in retired,
            stored=row["policy_digest"] is not None,
        )
        if stored.ramp is None:
            return record
        step = stored.ramp.step
        return replace(
            record,
            safe_rows=self._served[number, SAFE],
            ramp_share=None if step is None else step.ramp_share,
            window=0 if step is None else step.window,
            window_from=0 if step is None else step.window_from,
            reference=stored.ramp.reference,
            policy_rows=self._served[number, number],
            policy_losses=self._outcome(losses, number, POLICY_SUMS).losses,
        )

    def _count(self, connection: sql.Connection, losses: LossesSeen) -> None:
        """Count actions by round, from the entries of the hash chain: one for each call of `act`.

        In a ramp a call has actions of several policies, so those are counted by themselves.
        """
        for number, lane in losses.lanes.items():
            entry, action = self._counted.get(number, (0, 0))
            if number < 0 or lane.last_entry == entry:
                continue
            self._count_entries(connection, number, entry)
            if self._settings.is_ramp:
                self._count_served(connection, first_id(number), action, lane.last_action)
            self._counted[number] = lane.last_entry, lane.last_action

    def _count_entries(self, connection: sql.Connection, lane: int, after: int) -> None:
        entry = schema.entries
        rows = entry.c.last - entry.c.first + 1
        failed = sql.case((entry.c.note.is_not(None), rows), else_=0)
        sums = (sql.func.sum(each) for each in (rows, entry.c.calibration, failed))
        fresh = (entry.c.kind == ACTIONS, entry.c.lane == lane, entry.c.number > after)
        query = sql.select(entry.c.round, entry.c.served, *sums).where(*fresh)
        for number, served, count, calibration, fallback in connection.execute(
            query.group_by(entry.c.round, entry.c.served)
        ):
            of_round = self._counts[number]
            of_round.rows += int(count)
            of_round.safe += int(count) if served == SAFE else 0
            of_round.calibration += int(calibration)
            of_round.fallback += int(fallback)
        failures = sql.select(entry.c.round, entry.c.note).where(*fresh, entry.c.note.is_not(None))
        for number, message in connection.execute(failures.order_by(entry.c.number)):
            self._counts[number].failures[lane] = message

    def _count_served(self, connection: sql.Connection, start: int, after: int, last: int) -> None:
        action = schema.actions
        query = (
            sql.select(action.c.round, action.c.served, sql.func.count())
            .where(action.c.id.between(start + after + 1, start + last))
            .group_by(action.c.round, action.c.served)
        )
        for number, by, count in connection.execute(query):
            self._served[number, by] += int(count)

    def _outcome(self, losses: LossesSeen, number: int | None, part: str = "round") -> _Outcome:
        """What some sums say, computed once for each text that is kept of them."""
        text, known = losses.unchanged(number, part), self._outcomes.get((number, part))
        if text is not None and known is not None and known[0] == text:
            return known[1]
        sums = losses.sums(number, part)
        observed = min(sums.losses[name].observed for name in losses.names)
        found = _Outcome(mean_losses(sums), observed, sums.withdrawn, _mean_reward(sums.reward))
        if text is not None:
            self._outcomes[number, part] = (text, found)
        return found


def _stored_round(row: dict[str, Any], *, is_ramp: bool) -> StoredRound:
    ramp = None
    if is_ramp:
        with as_tampering(f"round {row['number']}"):
            ramp = RampRecord.from_row(row)
    calibration = None if is_ramp else calibration_from_json(row["calibration"])
    return StoredRound(row, calibration, ramp)


def alarm_record(row: dict[str, Any], audit: tuple[AuditRecord, ...]) -> Alarm:
    """An alarm, with the act that cleared it."""
    number = row["number"]
    cleared = (each for each in audit if each.act == RESUME and (each.subject or 0) >= number)
    by = next(cleared, None)
    if by is None:
        return Alarm(**row)
    return Alarm(**row, cleared=by.done, reason=by.reason, actor=by.actor)


def mean_losses(sums: Sums) -> dict[str, Estimate]:
    """The mean of each loss of which some have arrived."""
    means = {name: each.mean for name, each in sums.losses.items() if each.mean is not None}
    return {name: loss_estimate(mean) for name, mean in means.items()}


def loss_estimate(monitor: RiskMonitor) -> Estimate:
    """The mean of the losses that a monitor has seen."""
    found = monitor.status
    return Estimate(found.seen, found.mean, found.lower, found.upper, monitor.standard_error)


def _mean_reward(sums: RewardSums) -> Estimate | None:
    if not sums.count:
        return None
    margin = NORMAL_QUANTILE * sums.standard_error
    return Estimate(
        sums.count, sums.mean, sums.mean - margin, sums.mean + margin, sums.standard_error
    )
