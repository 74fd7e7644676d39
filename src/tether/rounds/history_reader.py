"""Reading the history of a run from its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core.types import Booleans, Floats
from tether.monitor import RiskMonitor
from tether.rounds.errors import StoreError
from tether.rounds.history import Alarm, Estimate, History, RoundRecord
from tether.rounds.policy_registry import SAFE
from tether.rounds.settings import Settings
from tether.rounds.store import schema
from tether.rounds.store.database import Store, calibration_from_json, read_all, read_settings

INTERVAL_ERROR_PROBABILITY = 0.05
"""The probability that an interval of an `Estimate` misses what it estimates."""
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
    if not isinstance(store, Store):
        opened = Store(store, create=False)
        try:
            return read_history(opened)
        finally:
            opened.close()
    with store.reading() as connection:
        stored = read_settings(connection)
        if not stored:
            raise StoreError(f"{store.name} holds no run of tether yet")
        settings = Settings.from_dict(stored)
        rounds = read_all(connection, schema.rounds)
        alarms = read_all(connection, schema.alarms)
        failures = read_all(connection, schema.failures)
        rows = _read_rows(connection)
    by_own_policy = rows["served"] == rows["round"]
    safe_rounds = {row["number"] for row in rounds if row["log_beta"] == -np.inf}
    by_own_policy |= np.isin(rows["round"], list(safe_rounds))
    by_safe = rows["served"] == SAFE
    alarm_fields = ("number", "round", "monitor", "message", "raised", "cleared", "reason")
    return History(
        store=store.name,
        created=settings.created,
        safe=settings.safe,
        alpha=settings.alpha,
        bound=settings.bound,
        family=settings.family,
        test_weight=settings.test_weight,
        against=settings.against,
        missing=settings.missing,
        calibration_share=settings.calibration_share,
        alarm_risk=settings.alarm_risk,
        rounds=tuple(_round_record(row, rows, by_own_policy, settings, failures) for row in rounds),
        alarms=tuple(Alarm(**{name: row[name] for name in alarm_fields}) for row in alarms),
        safe_loss=_mean_loss(rows["loss"][by_safe], settings),
        safe_reward=_mean_reward(rows["reward"][by_safe]),
        shortlist=settings.shortlist,
        target=settings.target,
        confidence=settings.confidence,
    )


def _read_rows(connection: sql.Connection) -> dict[str, Floats]:
    """The columns that estimates need, observed rows in the order of their observations."""
    action, observation = schema.actions, schema.observations
    query = (
        sql.select(
            action.c.round,
            action.c.served,
            action.c.calibration,
            observation.c.number,
            observation.c.loss,
            observation.c.reward,
        )
        .join_from(action, observation, observation.c.action == action.c.id, isouter=True)
        .order_by(observation.c.number)
    )
    rows = connection.execute(query).fetchall()
    names = ("round", "served", "calibration", "observation", "loss", "reward")
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {
        name: np.array(column, dtype=np.float64)
        for name, column in zip(names, columns, strict=True)
    }


def _round_record(
    row: dict[str, Any],
    rows: dict[str, Floats],
    by_own_policy: Booleans,
    settings: Settings,
    failures: list[dict[str, Any]],
) -> RoundRecord:
    failed = [failure for failure in failures if failure["round"] == row["number"]]
    in_round = rows["round"] == row["number"]
    settled = in_round & ~np.isnan(rows["observation"])
    observed = in_round & ~np.isnan(rows["loss"])
    return RoundRecord(
        number=row["number"],
        policy=row["policy"],
        begun=row["begun"],
        calibration=calibration_from_json(row["calibration"]),
        note=row["note"],
        rows=int(in_round.sum()),
        safe_rows=int((in_round & (rows["served"] == SAFE)).sum()),
        calibration_rows=int((in_round & (rows["calibration"] == 1)).sum()),
        observed=int(observed.sum()),
        withdrawn=int((settled & ~observed).sum()),
        loss=_mean_loss(rows["loss"][in_round & by_own_policy], settings),
        reward=_mean_reward(rows["reward"][in_round & by_own_policy]),
        fallback_rows=sum(
            failure["last_action"] - failure["first_action"] + 1 for failure in failed
        ),
        failure=failed[-1]["message"] if failed else "",
    )


def _mean_loss(losses: Floats, settings: Settings) -> Estimate | None:
    arrived = losses[~np.isnan(losses)]
    if not len(arrived):
        return None
    monitor = RiskMonitor(
        settings.alpha, settings.bound, false_alarm_probability=INTERVAL_ERROR_PROBABILITY
    )
    status = monitor.update(arrived)
    return Estimate(status.seen, status.mean, status.lower, status.upper)


def _mean_reward(rewards: Floats) -> Estimate | None:
    known = rewards[~np.isnan(rewards)]
    if not len(known):
        return None
    mean = float(known.mean())
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else np.inf
    return Estimate(
        len(known), mean, mean - NORMAL_QUANTILE * error, mean + NORMAL_QUANTILE * error
    )
