"""Reading the history of a run from its store: from sums that are kept, not from the rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from tether.monitor import RiskMonitor
from tether.rounds.aims.stored_aim import read_aim
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
from tether.rounds.store.opened_store import opened_store
from tether.rounds.store.queries import (
    calibration_from_json,
    read_all,
    read_settings,
)
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
        audit = tuple(AuditRecord(**row) for row in read_all(connection, schema.audit))
        retired = {each.subject for each in audit if each.act == RETIRE}
        counts = count_actions(connection)
        losses = LossesSeen(connection, settings)
        losses.update(watch=False)  # those that nobody has added to the sums yet
        rows = read_all(connection, schema.rounds)
        rounds = tuple(
            _round_record(row, counts[row["number"]], losses, retired, is_ramp=settings.is_ramp)
            for row in rows
        )
        if settings.is_ramp:
            rounds = _with_shares(connection, rows, rounds, losses)
        alarms = tuple(alarm_record(row, audit) for row in read_all(connection, schema.alarms))
        safe = losses.sums(None)
    return History(
        store=store.name,
        created=settings.created,
        safe=settings.safe,
        limits=settings.limits,
        family=settings.family,
        test_weight=settings.test_weight,
        against=settings.against,
        missing=settings.missing,
        calibration_share=settings.calibration_share,
        rounds=rounds,
        alarms=alarms,
        safe_losses=mean_losses(safe),
        safe_reward=_mean_reward(safe.reward),
        shortlist=settings.shortlist,
        target=settings.target,
        confidence=settings.confidence,
        audit=audit,
        actions_per_step=settings.actions_per_step,
        aims=settings.aim is not None,
    )


@dataclass
class _Counts:
    """How many actions of a round there are, and of these, which the safe policy took."""

    rows: int = 0
    safe: int = 0
    calibration: int = 0
    fallback: int = 0
    failure: str = ""


def count_actions(connection: sql.Connection) -> defaultdict[int, _Counts]:
    """Counts by round, from the entries of the hash chain: one for each call of `act`."""
    entry = schema.entries
    rows = entry.c.last - entry.c.first + 1
    failed = sql.case((entry.c.note.is_not(None), rows), else_=0)
    sums = (sql.func.sum(each) for each in (rows, entry.c.calibration, failed))
    query = sql.select(entry.c.round, entry.c.served, *sums).where(entry.c.kind == ACTIONS)
    counts: defaultdict[int, _Counts] = defaultdict(_Counts)
    for number, served, count, calibration, fallback in connection.execute(
        query.group_by(entry.c.round, entry.c.served)
    ):
        of_round = counts[number]
        of_round.rows += int(count)
        of_round.safe += int(count) if served == SAFE else 0
        of_round.calibration += int(calibration)
        of_round.fallback += int(fallback)
    failures = sql.select(entry.c.round, entry.c.note).where(entry.c.note.is_not(None))
    failures = failures.where(entry.c.kind == ACTIONS).order_by(entry.c.lane, entry.c.number)
    for number, message in connection.execute(failures):
        counts[number].failure = message
    return counts


def _round_record(
    row: dict[str, Any],
    counts: _Counts,
    losses: LossesSeen,
    retired: set[int | None],
    *,
    is_ramp: bool,
) -> RoundRecord:
    sums, aim = losses.sums(row["number"]), read_aim(row)
    return RoundRecord(
        number=row["number"],
        policy=row["policy"],
        begun=row["begun"],
        calibration=None if is_ramp else calibration_from_json(row["calibration"]),
        note=row["note"],
        rows=counts.rows,
        safe_rows=counts.safe,
        calibration_rows=counts.calibration,
        observed=min(sums.losses[name].observed for name in losses.names),
        withdrawn=sums.withdrawn,
        losses=mean_losses(sums),
        reward=_mean_reward(sums.reward),
        fallback_rows=counts.fallback,
        failure=counts.failure,
        retired=row["number"] in retired,
        stored=row["policy_digest"] is not None and not (aim is not None and aim.problem),
        aim=aim,
    )


def alarm_record(row: dict[str, Any], audit: tuple[AuditRecord, ...]) -> Alarm:
    """An alarm, with the act that cleared it."""
    number = row["number"]
    cleared = (each for each in audit if each.act == RESUME and (each.subject or 0) >= number)
    by = next(cleared, None)
    if by is None:
        return Alarm(**row)
    return Alarm(**row, cleared=by.done, reason=by.reason, actor=by.actor)


def _with_shares(
    connection: sql.Connection,
    rows: list[dict[str, Any]],
    rounds: tuple[RoundRecord, ...],
    losses: LossesSeen,
) -> tuple[RoundRecord, ...]:
    """The rounds of a ramp, with their shares and what each policy did."""
    action = schema.actions
    query = sql.select(action.c.round, action.c.served, sql.func.count())
    served = {
        (number, by): count
        for number, by, count in connection.execute(query.group_by(action.c.round, action.c.served))
    }
    found = []
    for row, each in zip(rows, rounds, strict=True):
        with as_tampering(f"round {each.number}"):
            record = RampRecord.from_row(row)
        found.append(
            replace(
                each,
                safe_rows=served.get((each.number, SAFE), 0),
                ramp_share=None if record.step is None else record.step.ramp_share,
                window=0 if record.step is None else record.step.window,
                reference=record.reference,
                policy_rows=served.get((each.number, each.number), 0),
                policy_losses=mean_losses(losses.sums(each.number, POLICY_SUMS)),
            )
        )
    return tuple(found)


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
