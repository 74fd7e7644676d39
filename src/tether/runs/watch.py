"""The stop inside the fold: sums of bets for every step, kept up to date row by row.

`tether.runs.stop` has the bets and why they hold. A row counts from the moment it is assigned, with
its loss unknown; when the loss arrives, its factor is exchanged. After an outcome deadline silence
counts as the worst loss.

In a release or ramp the rows of the new system bet against what is tolerated. In a round that
serves a tethered policy all of that policy's rows do, against the alarm level: half as much again
as is tolerated, but at most the middle between that and the bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Floats, Integers
from tether.runs.settings import Settings
from tether.runs.shares import Guardrail
from tether.runs.stop import FEWEST_FAILURES, STAKES

if TYPE_CHECKING:
    from tether.runs.state import State, Unit

STOP, FINISH = 0, 1
"""The two kinds of bets: that the new system is worse than tolerated, and that it is not."""
NEVER = 2**31 - 1


class Stop:
    """Sums of log factors since the last restart: steps × guardrails × kinds of bets × stakes."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.first = 1  # the unit with which the bets began
        self.from_row = 0  # the row with which they began
        self.sums = np.zeros((0, 0, 2, len(STAKES)))
        self.failures: list[int] = []
        self.overdue_before = 0  # rows before this one have been looked at
        self._touched: int = NEVER
        self._limits: list[Guardrail] = []
        self._levels: list[float] = []

    def begin(self, settings: Settings) -> None:
        """For the guardrails of a run."""
        self.names = list(settings.limits)
        self.sums = np.zeros((0, len(self.names), 2, len(STAKES)))
        self.failures = [0] * len(self.names)
        self._read(settings)

    def tighten(self, state: State) -> None:
        """Bet against smaller limits from now on; what was shown so far is forgotten."""
        self._read(state.given)
        self.restart(len(state.units) + 1)

    def restart(self, first: int = 0) -> None:
        """Begin anew with the next unit."""
        self.first = first or self.first + len(self.sums)
        self.sums, self.failures = self.sums[:0], [0] * len(self.names)
        self._touched = NEVER

    def restart_within(self, state: State) -> None:
        """Begin anew in the present unit, whose policy goes on: rows so far do not count."""
        self.restart(len(state.units))
        self.sums = np.zeros((1, *self.sums.shape[1:]))
        self.from_row = state.rows.size

    def begin_unit(self, state: State, unit: Unit) -> None:
        """One more step."""
        if unit.number >= self.first:
            self.sums = np.concatenate((self.sums, np.zeros((1, *self.sums.shape[1:]))))

    def add_rows(self, state: State, new: slice) -> None:
        """Rows that were just assigned; while the new system is stopped nothing counts."""
        if not state.is_stopped:
            rows = np.arange(new.start, new.stop)
            for place in range(len(self.names)):
                self._move(state, place, rows, None, +1)

    def add_losses(self, state: State, name: str, rows: Integers, values: Floats) -> None:
        """Losses that were not known before."""
        place = self.names.index(name)
        scaled = values / self._limits[place].bound
        self._move(state, place, rows, None, -1)
        self._move(state, place, rows, scaled, +1)
        bad = (state.rows["arm"][rows] > 0) & (scaled > self._levels[place])
        counted = (state.rows["unit"][rows] >= self.first) & (rows >= self.from_row)
        self.failures[place] += int((bad & counted).sum())
        if bad.any() or self._limits[place].is_relative:
            touched = state.rows["unit"][rows] - self.first
            self._touched = min(self._touched, int(touched[touched >= 0].min(initial=NEVER)))

    def withdraw(self, state: State, rows: Integers) -> None:
        """Rows that do not count."""
        for place, name in enumerate(self.names):
            values = state.loss(name)[rows] / self._limits[place].bound
            unknown = np.isnan(values)
            self._move(state, place, rows[unknown], None, -1)
            self._move(state, place, rows[~unknown], values[~unknown], -1)

    def shown(self, state: State, now: int) -> tuple[str, str] | None:
        """The alarm that the bets raise, if any; only ends of steps that changed are looked at."""
        settings = state.given
        if settings.stop is None or not len(self.sums):
            return None
        self._count_silence(state, now)
        touched, self._touched = self._touched, NEVER
        if touched >= len(self.sums) or max(self.failures) < FEWEST_FAILURES:
            return None
        limit = math.log(len(self.names) / settings.stop)
        for end in range(touched + 1, len(self.sums) + 1):
            wealth = [self._log_wealth(place, end, STOP) for place in range(len(self.names))]
            if np.logaddexp.reduce(wealth) >= limit:
                return "stop", self._in_words(state, int(np.argmax(wealth)))
        return None

    def is_finished(self, state: State) -> bool:
        """Whether it is shown that no relative guardrail is exceeded."""
        error = state.given.stop
        relative = [k for k, each in enumerate(self._limits) if each.is_relative]
        if not relative or error is None:
            return False
        limit, end = math.log(1 / error), len(self.sums)
        return all(self._log_wealth(place, end, FINISH) >= limit for place in relative)

    # ---- one factor ---------------------------------------------------------------------------

    def _move(
        self, state: State, place: int, rows: Integers, scaled: Floats | None, sign: int
    ) -> None:
        """Add or take off the factors of rows with these losses; None is unknown."""
        unit = state.rows["unit"][rows]
        counted = (unit >= self.first) & (rows >= self.from_row)
        if not counted.all():
            rows, unit = rows[counted], unit[counted]
            scaled = None if scaled is None else scaled[counted]
        if not len(rows):
            return
        arm, overdue = state.rows["arm"][rows] > 0, rows < self.overdue_before
        for number in np.unique(unit).tolist():
            mine = unit == number
            share = state.units[number - 1].level
            loss = None if scaled is None else scaled[mine]
            for kind in (STOP, FINISH):
                logs = self._log_factors(place, kind, share, arm[mine], overdue[mine], loss)
                self.sums[number - self.first, place, kind] += sign * logs

    def _log_factors(
        self,
        place: int,
        kind: int,
        share: float,
        is_new: NDArray[Any],
        overdue: NDArray[Any],
        loss: Floats | None,
    ) -> Floats:
        """The sum of the log factors of rows of one step, for each stake."""
        limit, level = self._limits[place], self._levels[place]
        if (
            loss is None
        ):  # for the stop 0 for the new system and 1 for the old one, else the reverse
            worst = ~is_new if kind == STOP else is_new
            loss = np.where(worst | overdue, 1.0, 0.0)
        if not limit.is_relative:
            if kind == FINISH:
                return np.zeros(len(STAKES))
            scaled = loss[is_new] / level - 1
        elif 0 < share < 1:
            delta, ratio = limit.delta / limit.bound, limit.ratio
            weight, centre = share * (1 + ratio), share * (1 - share) * delta
            gains = np.where(is_new, (1 - share) * loss, -weight * loss) - centre
            scaled = gains / (weight + centre) if kind == STOP else -gains / (1 - share - centre)
        else:
            return np.zeros(len(STAKES))
        return np.asarray(np.log1p(STAKES * scaled).sum(axis=1))

    def _log_wealth(self, place: int, end: int, kind: int) -> float:
        sums = self.sums[:end, place, kind]
        from_step = np.cumsum(sums[::-1], axis=0)[::-1]
        first = np.arange(1.0, end + 1)
        held = np.logaddexp.reduce(from_step, axis=1) - math.log(len(STAKES))
        held -= np.log(first * (first + 1))
        return float(np.logaddexp(np.logaddexp.reduce(held), -math.log(end + 1)))

    def _count_silence(self, state: State, now: int) -> None:
        """Count rows as the worst loss whose outcome deadline has passed."""
        deadline = state.given.outcome_deadline
        if deadline is None:
            return
        at = state.rows["at"]
        until = int(np.searchsorted(at, now - int(deadline * 1e6), side="right"))
        if until <= self.overdue_before:
            return
        rows = np.arange(self.overdue_before, until)
        rows = rows[~state.rows["withdrawn"][rows]]
        for place, name in enumerate(self.names):
            silent = rows[np.isnan(state.loss(name)[rows])]
            self._move(state, place, silent, None, -1)
            before, self.overdue_before = self.overdue_before, until
            self._move(state, place, silent, None, +1)
            self.overdue_before = before
            touched = state.rows["unit"][silent] - self.first
            bad = (state.rows["arm"][silent] > 0) & (touched >= 0)
            self.failures[place] += int(bad.sum())
            self._touched = min(self._touched, int(touched[bad].min(initial=NEVER)))
        self.overdue_before = until

    def _in_words(self, state: State, place: int) -> str:
        name, limit = self.names[place], self._limits[place]
        means = []
        for arm in (0, 1):
            rows = np.flatnonzero(
                (state.rows["unit"] >= self.first)
                & ((state.rows["arm"] > 0) == bool(arm))
                & ~state.rows["withdrawn"]
            )
            known = state.loss(name)[rows]
            known = known[~np.isnan(known)]
            means.append((float(known.mean()) if len(known) else math.nan, len(known)))
        tolerated = f"{self._levels[place] * limit.bound:.4g}"
        if limit.is_relative:
            tolerated = (
                f"what the old system loses plus {limit.delta:g} and {limit.ratio:.0%} of it"
            )
        beside = f"; the old one {means[0][0]:.4g}" if means[0][1] else ""
        return (
            f"{name}: the new system is shown to lose more than {tolerated}: "
            f"{means[1][0]:.4g} on {means[1][1]} rows{beside}"
        )

    def _read(self, settings: Settings) -> None:
        self._limits = list(settings.limits.values())
        self._levels = []
        for each in self._limits:
            tolerated = (each.tolerated or each.delta or 0.0) / each.bound
            if not settings.decides_shares:
                tolerated = min(1.5 * tolerated, (tolerated + 1) / 2)
            self._levels.append(tolerated)

    # ---- the cache ----------------------------------------------------------------------------

    def numbers(self) -> list[Any]:
        """The plain part of the state."""
        return [self.first, self.from_row, self.failures, self.overdue_before, self._touched]

    def dump(self) -> dict[str, NDArray[Any]]:
        """The columns of the state."""
        return {"sums": self.sums}

    def load(self, numbers: list[Any], columns: dict[str, NDArray[Any]]) -> None:
        """Undo both."""
        self.first, self.from_row, self.failures, self.overdue_before, self._touched = numbers
        self.sums = np.array(columns["sums"])
