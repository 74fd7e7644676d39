"""The monitors inside the fold: the stop, and the watch on the scores of contexts.

The stop keeps sums of bets for every step up to date row by row; `tether.runs.stop` has the bets
and why they hold. They run over the rows in the order of assignment up to the last call with a row
of the new system whose outcome is known: bets hold for any number of first calls, so what is still
on its way does not weigh against them. A row before that whose loss is not known counts as none;
when its loss arrives, its factor is exchanged. After an outcome
deadline silence counts as the worst loss; for a relative guardrail as the worst loss of both
systems in one bet, and as none of either in another.

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
from tether.monitor import ShiftMonitor
from tether.runs.settings import RELEASE, Settings
from tether.runs.shares import Guardrail
from tether.runs.stop import FEWEST_FAILURES, STAKES, log_factors, log_wealth, relative_log_factors

if TYPE_CHECKING:
    from tether.runs.state import State, Unit

FRESH, RETURNING = 0, 1
"""Bets on rows that are judged at once, and on rows that are judged when their step is over."""
NEVER = 2**31 - 1
REFERENCE_CONTEXTS = 500
"""How many contexts serve as the reference of a shift."""
SEEN_BY_NEW = 2
"""The bit of the column `known` that says that the new system answered the key before."""


class Bet(NamedTuple):
    """A guardrail that is bet on; `silence` is what an outcome counts that never came."""

    name: str
    limit: Guardrail
    level: float
    silence: float


class Stop:
    """Sums of log factors since the last restart: steps × bets × kinds × stakes."""

    def __init__(self) -> None:
        self.first = 1  # the unit with which the bets began
        self.from_row = self.counted = 0  # they run over these rows
        self.failures: dict[str, int] = {}
        self.overdue_before = 0  # rows before this one have been looked at
        self._touched = NEVER  # the first step, counted from `first`, whose end must be tried
        self._bets: list[Bet] = []
        self.sums = self._no_sums(0)

    def restart(self, state: State) -> None:
        """Begin anew with the next row: when a run begins, goes on after an alarm, or is tightened.

        Rows so far do not count any more.
        """
        self._bets = _bets(state.given)
        self.failures = dict.fromkeys(state.given.limits, 0)
        self.first, self._touched = max(len(state.units), 1), NEVER
        self.sums = self._no_sums(min(len(state.units), 1))
        self.from_row = self.counted = state.rows.size

    def begin_unit(self, state: State, unit: Unit) -> None:
        """One more step; the returning keys of the last one are judged now."""
        if len(self.sums):
            self._count(state, unit.before)
            rows = self._rows_of(state, unit.number - 1)
            for place, bet in enumerate(self._bets):
                if bet.limit.is_relative:
                    losses = self._losses(state, bet, rows)
                    self.sums[-1, place] = self._factors(state, bet, rows, losses)
            self._touched = min(self._touched, len(self.sums) - 1)
        self.sums = np.concatenate((self.sums, self._no_sums(1)))

    def add_losses(self, state: State, name: str, rows: Integers) -> None:
        """Losses that were not known before, and are stored by now."""
        rows = rows[rows >= self.from_row]
        if not len(rows) or not len(self.sums):
            return
        before = rows[rows < self.counted]
        is_new, limit = state.rows["arm"][rows] > 0, state.given.limits[name]
        for place, bet in enumerate(self._bets):
            if bet.name == name:
                self._move(state, place, before, math.nan, -1)
                self._move(state, place, before, self._losses(state, bet, before), +1)
                failed = is_new & (self._losses(state, bet, rows) > bet.level)
        if is_new.any():
            at = state.rows["at"]
            self._count(state, int(np.searchsorted(at, at[rows[is_new].max()], side="right")))
        self.failures[name] += int(failed.sum())
        if failed.any() or limit.is_relative:
            earliest = int(state.rows["unit"][rows].min()) - self.first
            self._touched = min(self._touched, earliest)

    def withdraw(self, state: State, rows: Integers) -> None:
        """Rows that do not count."""
        rows = rows[(rows >= self.from_row) & (rows < self.counted)]
        for place, bet in enumerate(self._bets):
            self._move(state, place, rows, self._losses(state, bet, rows), -1)

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
            wealth = [self._log_wealth(place, end) for place in range(len(self._bets))]
            if np.logaddexp.reduce(wealth) >= limit:
                return "stop", self._in_words(state, int(np.argmax(wealth)))
        return None

    def is_finished(self, state: State) -> bool:
        """Whether it is shown, when a step ends, that no relative guardrail is exceeded."""
        wealth, numbers = list[float](), range(self.first, len(state.units) + 1)
        for bet in self._bets:
            if bet.limit.is_relative and numbers:
                sums = [self._finish(state, bet, self._rows_of(state, each)) for each in numbers]
                wealth.append(log_wealth(np.array(sums)))
        return bool(wealth) and min(wealth) >= math.log(1 / (state.given.stop or 0.05))

    # ---- factors ------------------------------------------------------------------------------

    def _count(self, state: State, until: int) -> None:
        """Let the bets run over all rows before this one."""
        if until <= self.counted:
            return
        rows = np.arange(self.counted, until)
        rows = rows[~state.rows["withdrawn"][rows]]
        for place, bet in enumerate(self._bets):
            self._move(state, place, rows, self._losses(state, bet, rows), +1)
        self.counted = until

    def _move(
        self, state: State, place: int, rows: Integers, given: float | Floats, sign: int
    ) -> None:
        """Add or take off the factors of rows with these losses; NaN is not known."""
        losses = np.broadcast_to(given, rows.shape)
        if state.given.kind == RELEASE:  # not those of an outage, or while an alarm stood
            counts = state.rows["calibration"][rows]
            rows, losses = rows[counts], losses[counts]
        units = state.rows["unit"][rows]
        for number in np.unique(units).tolist():
            mine = units == number
            factors = self._factors(state, self._bets[place], rows[mine], losses[mine])
            self.sums[number - self.first, place] += sign * factors

    def _factors(self, state: State, bet: Bet, rows: Integers, losses: Floats) -> Floats:
        """The sums of log factors of rows of one step; an unknown loss is the most harmless."""
        is_new = state.rows["arm"][rows] > 0
        found = np.zeros((RETURNING + 1, len(STAKES)))
        if not len(rows):
            return found
        if bet.limit.is_relative:
            filled = self._filled(bet, rows, losses, ~is_new)
            returns, share, part = self._coins(state, rows)
            for kind, mine, coin in ((FRESH, ~returns, share), (RETURNING, returns, part)):
                rule = coin, bet.limit.delta / bet.limit.bound, bet.limit.ratio
                found[kind] = relative_log_factors(filled[mine], is_new[mine], *rule)
            return found
        filled = self._filled(bet, rows, losses, np.zeros(len(rows), bool))
        returns = (state.rows["known"][rows] & SEEN_BY_NEW) > 0
        found[FRESH] = log_factors(filled[is_new & ~returns], bet.level)
        found[RETURNING] = log_factors(filled[is_new & returns], bet.level)
        return found

    def _finish(self, state: State, bet: Bet, rows: Integers) -> Floats:
        """The sums of log factors of the contrary bets, from all rows of one step."""
        if not len(rows):
            return np.zeros(len(STAKES))
        is_new = state.rows["arm"][rows] > 0
        filled = self._filled(bet, rows, self._losses(state, bet, rows), is_new)
        returns, share, part = self._coins(state, rows, is_over=True)
        coin = np.where(returns, part, share)
        rule = coin, bet.limit.delta / bet.limit.bound, bet.limit.ratio
        return relative_log_factors(filled, is_new, *rule, finish=True)

    def _rows_of(self, state: State, number: int) -> Integers:
        """The rows of a step that are bet on, for a release."""
        rows = state.kept(state.of_unit(number))
        mine = (rows >= self.from_row) & state.rows["calibration"][rows]
        return np.asarray(rows[mine])

    def _filled(self, bet: Bet, rows: Integers, losses: Floats, waiting: Booleans) -> Floats:
        """The losses, and for those that are not known what they count as."""
        unknown = np.where(rows < self.overdue_before, bet.silence, waiting)
        return np.where(np.isnan(losses), unknown, losses)

    def _coins(
        self, state: State, rows: Integers, is_over: bool = False
    ) -> tuple[Booleans, float, float]:
        """Which rows of a step are of keys that return, and the new system's part of both kinds.

        Of new keys that is the share; of those that return, once the step is over, the part of them
        that it had. Before, 0: they are not judged.
        """
        number = int(state.rows["unit"][rows[0]])
        share, part = state.units[number - 1].level, 0.0
        if not state.given.sticky or state.given.kind != RELEASE:
            return np.zeros(len(rows), bool), share, part
        if is_over or number < len(state.units):
            step = state.of_unit(number)  # withdrawn rows too: nothing changes it any more
            mine = slice(max(step.start, self.from_row), step.stop)
            returning = (state.rows["known"][mine] > 0) & state.rows["calibration"][mine]
            part = float(state.rows["arm"][mine][returning].mean()) if returning.any() else 0.0
        return np.asarray(state.rows["known"][rows] > 0), share, part

    def _losses(self, state: State, bet: Bet, rows: Integers) -> Floats:
        return np.asarray(state.loss(bet.name)[rows] / bet.limit.bound)

    def _log_wealth(self, place: int, end: int) -> float:
        sums = self.sums[:end, place, FRESH] + self.sums[:end, place, RETURNING]
        if end == len(self.sums):  # the present step: returning keys are not judged
            sums[-1] = self.sums[-1, place, FRESH]
        return log_wealth(sums)

    def _count_silence(self, state: State, now: int) -> None:
        """Count rows as silent whose outcome deadline has passed."""
        deadline = state.given.outcome_deadline
        if deadline is None:
            return
        due = now - int(deadline * 1e6)
        until = int(np.searchsorted(state.rows["at"], due, side="right"))
        rows = np.arange(max(self.overdue_before, self.from_row), until)
        if not len(rows):
            return
        self._count(state, until)
        rows = rows[~state.rows["withdrawn"][rows]]
        for place, bet in enumerate(self._bets):
            silent = rows[np.isnan(state.loss(bet.name)[rows])]
            self._move(state, place, silent, math.nan, -1)
            self._move(state, place, silent, bet.silence, +1)
            silent = silent[state.rows["arm"][silent] > 0]
            earliest = state.rows["unit"][silent].min(initial=NEVER) - self.first
            self._touched = min(self._touched, int(earliest))
            if bet.silence:
                self.failures[bet.name] += len(silent)
        self.overdue_before = until

    def _in_words(self, state: State, place: int) -> str:
        bet, steps = self._bets[place], self.sums[:, place, : RETURNING + 1].sum(axis=1)
        from_step = np.logaddexp.reduce(np.cumsum(steps[::-1], axis=0)[::-1], axis=1)
        since = self.first + int(np.argmax(from_step))  # where the evidence began to grow
        rows = slice(max(self.from_row, state.units[since - 1].before), state.rows.size)
        is_new = state.rows["arm"][rows] > 0
        kept, losses = ~state.rows["withdrawn"][rows], state.loss(bet.name)[rows]
        known = kept & ~np.isnan(losses)
        limit = bet.limit
        tolerated = f"{bet.level * limit.bound:.4g}"
        if limit.is_relative:
            more = [f"{limit.delta:g}"] if limit.delta else []
            more += [f"{limit.ratio:.0%} of it"] if limit.ratio else []
            tolerated = "what the old system loses plus " + " and ".join(more)
        who = "system" if state.given.kind == RELEASE else "policy"
        text = f"{bet.name}: the new {who} is shown to lose more than {tolerated}: "
        mine = losses[known & is_new]
        text += f"{mine.mean() if len(mine) else math.nan:.4g} on {len(mine)} rows"
        text += f" since step {since}" if since > self.first else ""
        missing = int((kept & is_new).sum()) - len(mine)
        if missing and state.given.outcome_deadline is not None:
            text += f", and {missing} without an outcome"
        others = losses[known & ~is_new]
        return text + (f"; the old one {others.mean():.4g}" if len(others) else "")

    # ---- the cache ----------------------------------------------------------------------------

    def numbers(self) -> list[Any]:
        """The state but for its sums."""
        rows = self.from_row, self.counted, self.overdue_before
        return [self.first, *rows, self.failures, self._touched]

    def load(self, given: Settings, numbers: list[Any], sums: NDArray[Any]) -> None:
        """Undo `numbers`."""
        self._bets, self.sums = _bets(given), np.array(sums)
        self.first, self.from_row, self.counted, self.overdue_before, *rest = numbers
        self.failures, self._touched = rest

    def _no_sums(self, steps: int) -> Floats:
        return np.zeros((steps, len(self._bets), RETURNING + 1, len(STAKES)))


def _bets(settings: Settings) -> list[Bet]:
    found = []
    for name, limit in settings.limits.items():
        level = (limit.tolerated or limit.delta or 0.0) / limit.bound
        if not settings.decides_shares:
            level = min(1.5 * level, (level + 1) / 2)
        both = limit.is_relative and settings.outcome_deadline is not None
        found += [Bet(name, limit, level, silence) for silence in ((1.0, 0.0) if both else (1.0,))]
    return found


class Shift:
    """Whether the scores of contexts since row `start` have shifted; the first are the reference.

    It follows from the scores alone, so a dump has only these.
    """

    def __init__(self, start: int = 0) -> None:
        self.start, self._seen = start, 0
        self._monitor: ShiftMonitor | None = None

    def shown(self, settings: Settings, scores: NDArray[Any]) -> tuple[str, str] | None:
        """The alarm that the scores of all rows raise, if any."""
        if settings.stop is None or len(scores) < self.start + REFERENCE_CONTEXTS:
            return None
        if self._monitor is None:
            self._seen = self.start + REFERENCE_CONTEXTS
            rng = np.random.default_rng([settings.seed, self.start])
            reference = scores[self.start : self._seen]
            self._monitor = ShiftMonitor(reference, settings.stop, rng=rng)
        new, self._seen = scores[self._seen :], len(scores)
        if not len(new):
            return None
        status = self._monitor.update(new)
        return ("shift", str(status)) if status.alarm else None
