"""The stop inside the fold: sums of bets for every step, kept up to date row by row.

`tether.runs.stop` has the bets and why they hold. A row counts from the moment it is assigned, with
its loss unknown; when the loss arrives, its factor is exchanged. After an outcome deadline silence
counts as the worst loss; for a relative guardrail it counts as the worst loss of both systems in
one bet, and as none of either in another.

In a release or ramp the rows of the new system bet against what is tolerated. In a round that
serves a tethered policy all of that policy's rows do, against the alarm level: half as much again
as is tolerated, but at most the middle between that and the bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Booleans, Floats, Integers
from tether.runs.keys import is_below
from tether.runs.settings import RELEASE, Settings
from tether.runs.shares import Guardrail
from tether.runs.stop import FEWEST_FAILURES, STAKES, log_factors, log_wealth, relative_log_factors

if TYPE_CHECKING:
    from tether.runs.state import State, Unit

STOP, FINISH = 0, 1
"""The two kinds of bets: that the new system is worse than tolerated, and that it is not."""
FRESH, RETURNING = 0, 1
"""Rows that are judged at once, and rows that are judged when their step is over."""
NEVER = 2**31 - 1
SEEN_BY_NEW = 2
"""The bit of the column `known` that says that the new system answered the key before."""


class Bet(NamedTuple):
    """A guardrail that is bet on; `silence` is what an outcome counts that never came."""

    name: str
    limit: Guardrail
    level: float
    silence: float


class Stop:
    """Sums of log factors since the last restart: steps × bets × kinds × parts × stakes."""

    def __init__(self) -> None:
        self.first = 1  # the unit with which the bets began
        self.from_row = 0  # the row with which they began
        self.failures: dict[str, int] = {}
        self.overdue_before = 0  # rows before this one have been looked at
        self._touched = NEVER  # the first step, counted from `first`, whose end must be tried
        self._bets: list[Bet] = []
        self.sums = self._no_sums()

    def begin(self, settings: Settings) -> None:
        """For the guardrails of a run."""
        self._read(settings)
        self.failures = dict.fromkeys(settings.limits, 0)
        self.sums = self._no_sums()

    def tighten(self, state: State) -> None:
        """Bet against smaller limits from the next step on, which begins at once."""
        self._read(state.given)
        self.restart(len(state.units) + 1)

    def restart(self, first: int = 0) -> None:
        """Begin anew with the next unit."""
        self.first = first or self.first + len(self.sums)
        self.sums, self.failures = self._no_sums(), dict.fromkeys(self.failures, 0)
        self._touched = NEVER

    def restart_within(self, state: State) -> None:
        """Begin anew in the present unit, whose policy goes on: rows so far do not count."""
        self.restart(len(state.units))
        self.sums = np.zeros((1, *self.sums.shape[1:]))
        self.from_row = state.rows.size

    def begin_unit(self, state: State, unit: Unit) -> None:
        """One more step; the returning keys of the last one are judged now."""
        if unit.number >= self.first:
            if len(self.sums):
                self._touched = min(self._touched, len(self.sums) - 1)
            self.sums = np.concatenate((self.sums, np.zeros((1, *self.sums.shape[1:]))))

    def add_rows(self, state: State, new: slice) -> None:
        """Rows that were just assigned; while the new system is stopped nothing counts."""
        if not state.is_stopped and len(self.sums):
            rows = np.arange(new.start, new.stop)
            for place in range(len(self._bets)):
                self._move(state, place, rows, None, +1)

    def add_losses(self, state: State, name: str, rows: Integers, values: Floats) -> None:
        """Losses that were not known before."""
        counted = (state.rows["unit"][rows] >= self.first) & (rows >= self.from_row)
        if not counted.all():
            rows, values = rows[counted], values[counted]
        if not len(rows) or not len(self.sums):
            return
        for place, bet in enumerate(self._bets):
            if bet.name != name:
                continue
            scaled = values / bet.limit.bound
            self._move(state, place, rows, None, -1)
            self._move(state, place, rows, scaled, +1)
            bad = (state.rows["arm"][rows] > 0) & (scaled > bet.level)
            if bad.any() or bet.limit.is_relative:
                earliest = int(state.rows["unit"][rows].min()) - self.first
                self._touched = min(self._touched, earliest)
        self.failures[name] += int(bad.sum())

    def withdraw(self, state: State, rows: Integers) -> None:
        """Rows that do not count."""
        for place, bet in enumerate(self._bets):
            values = state.loss(bet.name)[rows] / bet.limit.bound
            unknown = np.isnan(values)
            self._move(state, place, rows[unknown], None, -1)
            self._move(state, place, rows[~unknown], values[~unknown], -1)

    def shown(self, state: State, now: int) -> tuple[str, str] | None:
        """The alarm that the bets raise, if any; only ends of steps that changed are tried."""
        settings = state.given
        if settings.stop is None or not len(self.sums):
            return None
        self._count_silence(state, now)
        touched, self._touched = self._touched, NEVER
        if touched >= len(self.sums) or max(self.failures.values()) < FEWEST_FAILURES:
            return None
        limit = math.log(len(self._bets) / settings.stop)
        for end in range(touched + 1, len(self.sums) + 1):
            wealth = [self._log_wealth(place, end, STOP) for place in range(len(self._bets))]
            if np.logaddexp.reduce(wealth) >= limit:
                return "stop", self._in_words(state, self._bets[int(np.argmax(wealth))])
        return None

    def is_finished(self, state: State) -> bool:
        """Whether it is shown that no relative guardrail is exceeded."""
        relative = [k for k, each in enumerate(self._bets) if each.limit.is_relative]
        if not relative or not len(self.sums):
            return False
        limit, end = math.log(1 / (state.given.stop or 0.05)), len(self.sums)
        return all(self._log_wealth(place, end, FINISH, over=True) >= limit for place in relative)

    # ---- factors ------------------------------------------------------------------------------

    def _move(
        self, state: State, place: int, rows: Integers, scaled: Floats | None, sign: int
    ) -> None:
        """Add or take off the factors of rows with these losses; None is unknown."""
        counts = (state.rows["unit"][rows] >= self.first) & (rows >= self.from_row)
        if state.given.kind == RELEASE:  # not those of an outage, or while an alarm stood
            counts &= state.rows["calibration"][rows]
        if not counts.all():
            rows = rows[counts]
            scaled = None if scaled is None else scaled[counts]
        if not len(rows):
            return
        units = state.rows["unit"][rows]
        if units[0] == units[-1] and (units == units[0]).all():
            self._move_in(state, int(units[0]), place, rows, scaled, sign)
            return
        for number in np.unique(units).tolist():
            mine = units == number
            part = None if scaled is None else scaled[mine]
            self._move_in(state, number, place, rows[mine], part, sign)

    def _move_in(
        self,
        state: State,
        number: int,
        place: int,
        rows: Integers,
        scaled: Floats | None,
        sign: int,
    ) -> None:
        bet, step = self._bets[place], self.sums[number - self.first, place]
        is_new = state.rows["arm"][rows] > 0
        if bet.limit.is_relative:
            coin = _coins(state, number, rows)
            chosen = (coin > 0) & (coin < 1)
            rows, is_new, coin = rows[chosen], is_new[chosen], coin[chosen]
            scaled = None if scaled is None else scaled[chosen]
            rule = bet.limit.delta / bet.limit.bound, bet.limit.ratio
            for kind in (STOP, FINISH):
                loss = self._filled(bet, kind, rows, is_new, scaled)
                logs = relative_log_factors(loss, is_new, coin, *rule, finish=kind == FINISH)
                step[kind, FRESH] += sign * logs
            return
        rows, scaled = rows[is_new], None if scaled is None else scaled[is_new]
        if not len(rows):
            return
        loss = self._filled(bet, STOP, rows, is_new[is_new], scaled)
        returns = (state.rows["known"][rows] & SEEN_BY_NEW) > 0
        for part, mine in ((FRESH, ~returns), (RETURNING, returns)):
            if mine.any():
                step[STOP, part] += sign * log_factors(loss[mine], bet.level)

    def _filled(
        self, bet: Bet, kind: int, rows: Integers, is_new: Booleans, scaled: Floats | None
    ) -> Floats:
        """The losses; unknown ones are the most harmless for the bet until they are overdue."""
        if scaled is not None:
            return scaled
        harmless = is_new if kind == STOP else ~is_new
        waiting = np.where(harmless, 0.0, 1.0)
        return np.where(rows < self.overdue_before, bet.silence, waiting)

    def _log_wealth(self, place: int, end: int, kind: int, *, over: bool = False) -> float:
        sums = self.sums[:end, place, kind].sum(axis=1)
        if end == len(self.sums) and not over:  # the present step: returning keys are not judged
            sums[-1] = self.sums[-1, place, kind, FRESH]
        return log_wealth(sums)

    def _count_silence(self, state: State, now: int) -> None:
        """Count rows as silent whose outcome deadline has passed."""
        deadline = state.given.outcome_deadline
        if deadline is None:
            return
        due = now - int(deadline * 1e6)
        until = int(np.searchsorted(state.rows["at"], due, side="right"))
        before = self.overdue_before
        if until <= before:
            return
        rows = np.arange(before, until)
        rows = rows[~state.rows["withdrawn"][rows]]
        for place, bet in enumerate(self._bets):
            silent = rows[np.isnan(state.loss(bet.name)[rows])]
            self._move(state, place, silent, None, -1)
            self.overdue_before = until
            self._move(state, place, silent, None, +1)
            self.overdue_before = before
            steps = state.rows["unit"][silent] - self.first
            bad = (state.rows["arm"][silent] > 0) & (steps >= 0)
            self._touched = min(self._touched, int(steps[bad].min(initial=NEVER)))
            if bet.silence:
                self.failures[bet.name] += int(bad.sum())
        self.overdue_before = until

    def _in_words(self, state: State, bet: Bet) -> str:
        steps = self.sums[:, self._bets.index(bet), STOP].sum(axis=1)
        from_step = np.logaddexp.reduce(np.cumsum(steps[::-1], axis=0)[::-1], axis=1)
        since = self.first + int(np.argmax(from_step))  # where the evidence began to grow
        means = []
        for arm in (False, True):
            mine = (state.rows["unit"] >= since) & ((state.rows["arm"] > 0) == arm)
            known = state.loss(bet.name)[mine & ~state.rows["withdrawn"]]
            silent = np.isnan(known)
            means.append((float(known[~silent].mean()) if not silent.all() else math.nan, known))
        limit = bet.limit
        tolerated = f"{bet.level * limit.bound:.4g}"
        if limit.is_relative:
            more = [f"{limit.delta:g}"] if limit.delta else []
            more += [f"{limit.ratio:.0%} of it"] if limit.ratio else []
            tolerated = "what the old system loses plus " + " and ".join(more)
        text = f"{bet.name}: the new system is shown to lose more than {tolerated}: "
        text += f"{means[1][0]:.4g} on {int((~np.isnan(means[1][1])).sum())} rows"
        text += f" since step {since}" if since > self.first else ""
        missing = int(np.isnan(means[1][1]).sum())
        if missing and state.given.outcome_deadline is not None:
            text += f", and {missing} without an outcome"
        return text + ("" if math.isnan(means[0][0]) else f"; the old one {means[0][0]:.4g}")

    def _read(self, settings: Settings) -> None:
        self._bets = []
        for name, limit in settings.limits.items():
            level = (limit.tolerated or limit.delta or 0.0) / limit.bound
            if not settings.decides_shares:
                level = min(1.5 * level, (level + 1) / 2)
            both = limit.is_relative and settings.outcome_deadline is not None
            for silence in (1.0, 0.0) if both else (1.0,):
                self._bets.append(Bet(name, limit, level, silence))

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

    def _no_sums(self) -> Floats:
        return np.zeros((0, len(self._bets), 2, 2, len(STAKES)))


def _coins(state: State, number: int, rows: Integers) -> Floats:
    """The probability of the new system for each row of a step, given all that is known of its key.

    A key that nobody has seen: the share. One that was seen, and lies beyond every share so far:
    chance decides whether the step reaches it. Any other: 0, it stays where it was.
    """
    share = state.units[number - 1].level
    if not state.given.sticky or state.given.kind != RELEASE:
        return np.full(len(rows), share)
    reached = max((each.level for each in state.units[: number - 1]), default=0.0)
    beyond = max(share - reached, 0.0) / (1 - reached) if reached < 1 else 0.0
    coins = np.where(is_below(state.rows["position"][rows], reached), 0.0, beyond)
    return np.where(state.rows["known"][rows] == 0, share, coins)
