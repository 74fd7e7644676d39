"""What a run has been so far: a frozen record of every round, for people and for reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._check import Floats
from tether.control.calibration import Calibration
from tether.monitor import RiskMonitor
from tether.rounds import schema
from tether.rounds.calibrations import read_calibration
from tether.rounds.evidence import SAFE
from tether.rounds.store import Store, read_all, read_terms
from tether.rounds.terms import Terms


@dataclass(frozen=True)
class Estimate:
    """A mean of `count` values, and limits for what it estimates at a confidence of 95 %.

    For losses the limits hold at all times together; for rewards, which have no bound, they are
    those of the normal approximation.
    """

    count: int
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Alarm:
    """An alarm of a monitor; traffic goes to the safe policy from `raised` until `cleared`."""

    number: int
    round: int
    monitor: str
    """"risk" or "shift"."""
    message: str
    raised: str
    """When, in UTC, as ISO 8601; likewise `cleared`, which is None while the alarm stands."""
    cleared: str | None = None
    reason: str | None = None
    """Why a person cleared it."""


@dataclass(frozen=True)
class RoundRecord:
    """One round: what was calibrated when it began, and what came of it so far."""

    number: int
    policy: str | None
    """The name of the optimized policy that was offered; None where none was."""
    begun: str
    calibration: Calibration | None
    """None where there was nothing to calibrate: `note` says why."""
    note: str
    """Why the safe policy serves, or how missing losses were counted; often empty."""
    rows: int
    """Actions taken in the round, by either policy and for either share."""
    safe_rows: int
    """Those of them that the safe policy took: all, or those after an alarm."""
    calibration_rows: int
    observed: int
    """Rows whose loss has arrived."""
    withdrawn: int
    """Rows that were never carried out, and were taken out with a reason."""
    loss: Estimate | None
    """The realized risk of the policy that the round was begun with, both shares together."""
    reward: Estimate | None

    @property
    def pending(self) -> int:
        """Rows whose loss is still awaited."""
        return self.rows - self.observed - self.withdrawn

    @property
    def beta(self) -> float:
        """The beta in force: 0 where only the safe policy serves."""
        return 0.0 if self.calibration is None else self.calibration.beta


@dataclass(frozen=True)
class History:
    """A whole run: its terms, its rounds in order, its alarms."""

    store: str
    """Where it is kept, without any password."""
    created: str
    safe: str
    """The name of the safe policy."""
    alpha: float
    bound: float
    family: str
    test_weight: str | float
    against: str
    """"safe" or "last": what beta is measured against."""
    missing: str
    """How rows without a loss are treated: "wait", "worst_case" or "exclude"."""
    calibration_share: float
    watched: float
    """The risk above which the monitor raises its alarm."""
    rounds: tuple[RoundRecord, ...]
    alarms: tuple[Alarm, ...]
    safe_loss: Estimate | None
    """The safe policy's own mean loss and reward, over all rows that it took in any round."""
    safe_reward: Estimate | None

    @property
    def alarm(self) -> Alarm | None:
        """The alarm that stands, if one does."""
        return next((each for each in self.alarms if each.cleared is None), None)


def history(store: str | Path) -> History:
    """What the run in a store has been so far; no policy is needed to read it."""
    opened = Store(store, create=False)
    try:
        return read_history(opened)
    finally:
        opened.close()


def read_history(store: Store) -> History:
    """The same, of a store that is open."""
    with store.reading() as connection:
        terms = Terms.from_dict(read_terms(connection))
        rounds = read_all(connection, schema.rounds)
        alarms = read_all(connection, schema.alarms)
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
        rounds=tuple(_round(row, rows, own, terms) for row in rounds),
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


def _round(row: dict[str, Any], rows: dict[str, Any], own: Any, terms: Terms) -> RoundRecord:
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
    )


def _risk(losses: Floats, terms: Terms) -> Estimate | None:
    arrived = losses[~np.isnan(losses)]
    if not len(arrived):
        return None
    found = RiskMonitor(terms.alpha, terms.bound, delta=0.05).update(arrived)
    return Estimate(found.seen, found.mean, found.lower, found.upper)


def _mean(values: Floats) -> Estimate | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    mean = float(known.mean())
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else np.inf
    return Estimate(len(known), mean, mean - 1.96 * error, mean + 1.96 * error)
