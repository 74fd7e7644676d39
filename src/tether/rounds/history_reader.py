"""Reading what a run has been so far from its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core.types import Floats
from tether.monitor import RiskMonitor
from tether.rounds.errors import StoreError
from tether.rounds.history import Alarm, Estimate, History, RoundRecord
from tether.rounds.round_log import SAFE
from tether.rounds.settings import Terms
from tether.rounds.store import schema
from tether.rounds.store.calibrations import read_calibration
from tether.rounds.store.store import Store, read_all, read_terms


def read_history(store: str | Path | Store) -> History:
    """What the run in a store has been so far; no policy is needed to read it."""
    if not isinstance(store, Store):
        opened = Store(store, create=False)
        try:
            return read_history(opened)
        finally:
            opened.close()
    with store.reading() as connection:
        stored = read_terms(connection)
        if not stored:
            raise StoreError(f"{store.name} holds no run of tether yet")
        terms = Terms.from_dict(stored)
        rounds = read_all(connection, schema.rounds)
        alarms = read_all(connection, schema.alarms)
        failures = read_all(connection, schema.failures)
        rows = _read_rows(connection)
    own = rows["served"] == rows["round"]
    begun_safe = {row["number"] for row in rounds if row["log_beta"] == -np.inf}
    own |= np.isin(rows["round"], list(begun_safe))
    safe = rows["served"] == SAFE
    listed = ("number", "round", "monitor", "message", "raised", "cleared", "reason")
    return History(
        store=store.name,
        created=terms.created,
        safe=terms.safe,
        alpha=terms.alpha,
        bound=terms.bound,
        family=terms.family,
        test_weight=terms.test_weight,
        against=terms.against,
        missing=terms.missing,
        calibration_share=terms.calibration_share,
        watched=terms.watched,
        rounds=tuple(_round(row, rows, own, terms, failures) for row in rounds),
        alarms=tuple(Alarm(**{name: row[name] for name in listed}) for row in alarms),
        safe_loss=_risk(rows["loss"][safe], terms),
        safe_reward=_mean(rows["reward"][safe]),
    )


def _read_rows(connection: sql.Connection) -> dict[str, Any]:
    """What the estimates need of every row, those with a report in the order of their reports."""
    action, report = schema.actions, schema.reports
    query = (
        sql.select(
            action.c.round,
            action.c.served,
            action.c.calibration,
            report.c.number,
            report.c.loss,
            report.c.reward,
        )
        .join_from(action, report, report.c.action == action.c.id, isouter=True)
        .order_by(report.c.number)
    )
    found = connection.execute(query).fetchall()
    names = ("round", "served", "calibration", "report", "loss", "reward")
    columns = zip(*found, strict=True) if found else [()] * len(names)
    return {
        name: np.array(column, dtype=np.float64)
        for name, column in zip(names, columns, strict=True)
    }


def _round(
    row: dict[str, Any],
    rows: dict[str, Any],
    own: Any,
    terms: Terms,
    failures: list[dict[str, Any]],
) -> RoundRecord:
    failed = [each for each in failures if each["round"] == row["number"]]
    here = rows["round"] == row["number"]
    reported = here & ~np.isnan(rows["report"])
    observed = here & ~np.isnan(rows["loss"])
    return RoundRecord(
        number=row["number"],
        policy=row["policy"],
        begun=row["begun"],
        calibration=read_calibration(row["calibration"]),
        note=row["note"],
        rows=int(here.sum()),
        safe_rows=int((here & (rows["served"] == SAFE)).sum()),
        calibration_rows=int((here & (rows["calibration"] == 1)).sum()),
        observed=int(observed.sum()),
        withdrawn=int((reported & ~observed).sum()),
        loss=_risk(rows["loss"][here & own], terms),
        reward=_mean(rows["reward"][here & own]),
        fallback_rows=sum(each["last_action"] - each["first_action"] + 1 for each in failed),
        failure=failed[-1]["message"] if failed else "",
    )


def _risk(losses: Floats, terms: Terms) -> Estimate | None:
    arrived = losses[~np.isnan(losses)]
    if not len(arrived):
        return None
    found = RiskMonitor(terms.alpha, terms.bound, false_alarm_probability=0.05).update(arrived)
    return Estimate(found.seen, found.mean, found.lower, found.upper)


def _mean(values: Floats) -> Estimate | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    mean = float(known.mean())
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else np.inf
    return Estimate(len(known), mean, mean - 1.96 * error, mean + 1.96 * error)
