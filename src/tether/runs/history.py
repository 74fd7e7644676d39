"""A run so far, as frozen records: units, alarms and acts, the same for every kind of run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.records import encode
from tether._core.words import Columns, Described, Description
from tether.monitor.loss_monitors import confidence_interval
from tether.runs.keys import NEW, OLD
from tether.runs.settings import Settings
from tether.runs.state import MICROSECONDS, Act, Alarm, State

INTERVAL_ERROR = 0.05
"""The probability that an interval of an `Estimate` misses what it estimates."""
ARMS = {OLD: "old", NEW: "new"}


@dataclass(frozen=True)
class Estimate:
    """A mean with a 95 % confidence interval, which holds at all times simultaneously."""

    count: int
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class UnitRecord:
    """One round, or one step: what was served, and what it cost.

    `means` has the mean losses of each arm ("old" is the safe policy or old system), `promises`
    what was promised of each loss when the unit began.
    """

    number: int
    begun: str
    level: float
    rows: dict[str, int]
    pending: int
    means: dict[str, dict[str, Estimate]]
    promises: dict[str, float]
    policy: str | None = None
    reward: Estimate | None = None
    note: str = ""
    decision: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class History(Described):
    """Everything that a run has stored, for pages, reports, status and notebooks."""

    store: str
    settings: Settings
    units: tuple[UnitRecord, ...]
    alarms: tuple[Alarm, ...]
    acts: tuple[Act, ...]
    standing: int | None
    share: float

    @property
    def kind(self) -> str:
        """Which kind of run: "release" or "controller"."""
        return self.settings.kind

    @property
    def alarm(self) -> Alarm | None:
        """The alarm that stands; None if there is none."""
        return None if self.standing is None else self.alarms[self.standing - 1]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return dict(encode(self))

    def to_frame(self) -> Columns:
        """One row per unit, arm and loss, as columns that data-frame libraries accept."""
        names = "unit", "begun", "level", "arm", "loss", "rows", "count", "mean"
        rows = [
            (unit.number, unit.begun, unit.level, arm, name, unit.rows[arm], each.count, each.mean)
            for unit in self.units
            for arm, means in unit.means.items()
            for name, each in means.items()
        ]
        return Columns({name: np.array([row[k] for row in rows]) for k, name in enumerate(names)})

    def _describe(self) -> Description:
        from tether.view.run_document import document
        from tether.view.text import describe

        return describe(document(self))


def moment(at: int) -> str:
    """Microseconds as a moment in UTC, ISO 8601."""
    return datetime.fromtimestamp(at / MICROSECONDS, UTC).isoformat(timespec="microseconds")


def estimate(values: Floats, bound: float) -> Estimate:
    """The mean of losses in order of time, with its interval."""
    count = len(values)
    if not count:
        return Estimate(0, math.nan, 0.0, bound)
    scaled = values / bound
    seen = np.arange(count)
    guesses = (np.concatenate(([0.0], np.cumsum(scaled)[:-1])) + 0.5) / (seen + 1)
    squares = float(((scaled - guesses) ** 2).sum())
    lower, upper = confidence_interval(count, float(scaled.sum()), squares, INTERVAL_ERROR)
    return Estimate(count, float(values.mean()), float(lower) * bound, float(upper) * bound)


def reward_estimate(rewards: Floats) -> Estimate | None:
    """The mean of rewards, which have no bound, with a normal 95 % interval."""
    known = rewards[~np.isnan(rewards)]
    if not len(known):
        return None
    mean = float(known.mean())
    error = 1.96 * float(known.std(ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else math.inf
    return Estimate(len(known), mean, mean - error, mean + error)


def read_history(state: State, store: str, tampered: str | None = None) -> History:
    """The records of a state; of one whose chain is broken, up to there and with an alarm."""
    settings, units = state.given, []
    for unit in state.units:
        rows = state.of_unit(unit.number)
        means: dict[str, dict[str, Estimate]] = {}
        counts, pending = {}, 0
        for arm, name in ARMS.items():
            kept = state.kept(rows)
            mine = kept[(state.rows["arm"][kept] > 0) == bool(arm)]
            counts[name] = len(mine)
            means[name] = {}
            for loss, limit in settings.limits.items():
                known = state.loss(loss)[mine]
                pending = max(pending, int(np.isnan(known).sum()))
                means[name][loss] = estimate(known[~np.isnan(known)], limit.bound)
        units.append(
            UnitRecord(
                unit.number,
                moment(unit.begun),
                unit.level,
                counts,
                pending,
                means,
                dict(unit.decision.get("promises", {})),
                unit.policy,
                reward=reward_estimate(state.rows["reward"][state.kept(rows)]),
                note=str(unit.decision.get("reason", "")),
                decision=dict(unit.decision),
            )
        )
    alarms, standing, share = state.alarms, state.standing, state.share
    if tampered is not None:
        alarms = [*alarms, Alarm(len(alarms) + 1, len(units), "tampered", tampered, state.now)]
        standing, share = len(alarms), 0.0
    return History(store, settings, tuple(units), tuple(alarms), tuple(state.acts), standing, share)
