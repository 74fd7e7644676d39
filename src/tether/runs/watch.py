"""The monitors inside the fold: the stop, and the watch on the scores of contexts.

docs/explanation/release.md says what the bets are on, and why they hold.

**The stop.** With B = 1 and stakes 0 < λ < 1/limit, products of 1 + λ·(l − limit) over the new
system's rows in the order of assignment, from the start of step u on, are averaged over stakes and,
with weights 1/(u(u + 1)) and the rest as cash, over u. They run up to the last call with a row of
the new system whose outcome is known. An outcome that is not known counts as 0; when it arrives,
its factor is exchanged. Rows of keys that return are judged when their step is over.

**A relative guardrail.** If the new system answers a key with probability c, z = l/c if it does,
else −(1 + γ)·l/(1 − c). The stop bets on z > δ (unknown: 0 for the new system, B for the old one),
the finish on z < δ (unknown: B and 0). For a key that nobody has seen, c is the share; for one that
returns, the part of these keys that came to the new system in this step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Booleans, Floats, Integers
from tether.monitor import ShiftMonitor
from tether.runs.settings import RELEASE, Settings
from tether.runs.shares import Guardrail

if TYPE_CHECKING:
    from tether.runs.state import State, Unit

STAKES = 0.5 ** np.arange(1, 9)[:, None]
"""Parts of the largest stake that cannot be ruined."""
FEWEST_FAILURES = 3
"""A release is not stopped for fewer rows with a loss than this, whatever the bets say."""
NEVER = 2**31 - 1
REFERENCE_CONTEXTS = 500
"""How many contexts serve as the reference of a shift."""
SEEN_BY_NEW = 2
"""The bit of the column `known` that says that the new system answered the key before."""


def log_factors(losses: Floats, limit: float) -> Floats:
    """The log factors of rows of the new system, unknown losses as 0: a sum for each stake.

    >>> failing = log_factors(np.array([1, 0, 1, 1, 0, 1.0]), limit=0.05)
    >>> log_wealth(failing[None]) > math.log(1 / 0.05)
    True
    """
    return np.asarray(np.log1p(STAKES * (losses / limit - 1)).sum(axis=1))


def relative_log_factors(
    losses: Floats,
    is_new: Booleans,
    coin: Floats | float,
    delta: float,
    ratio: float,
    *,
    finish: bool = False,
) -> Floats:
    """The same for a relative guardrail, from rows of one step; 0 if who answers was certain."""
    if not len(losses) or np.min(coin) <= 0 or np.max(coin) >= 1:
        return np.zeros(len(STAKES))
    excess = np.where(is_new, losses / coin, -(1 + ratio) * losses / (1 - coin)) - delta
    least = delta - 1 / np.min(coin) if finish else delta + (1 + ratio) / (1 - np.max(coin))
    return np.asarray(np.log1p(STAKES * excess / least).sum(axis=1))


def log_wealth(sums: Floats) -> float:
    """The log of the capital of one bet after steps 1 to t, from the sums of each step."""
    from_step = np.cumsum(sums[::-1], axis=0)[::-1]  # rows of step u and later
    first = np.arange(1.0, len(sums) + 1)
    held = np.logaddexp.reduce(from_step, axis=1) - math.log(len(STAKES))
    held -= np.log(first * (first + 1))
    return float(np.logaddexp(np.logaddexp.reduce(held), -math.log(len(sums) + 1)))


class Bet(NamedTuple):
    """A guardrail that is bet on; `silence` is what an outcome counts that never came."""

    name: str
    limit: Guardrail
    level: float
    silence: float


@dataclass(eq=False)
class Stop:
    """Sums of log factors since the last restart: steps × bets × stakes.

    Rows of keys that return have no part in them before their step is over.
    """

    first: int = 1  # the unit with which the bets began
    from_row: int = 0
    counted: int = 0  # they run over the rows between these two
    overdue_before: int = 0  # rows before this one have been looked at
    touched: int = NEVER  # the first step, counted from `first`, whose end must be tried
    failures: dict[str, int] = field(default_factory=dict)
    bets: list[Bet] = field(default_factory=list, init=False)
    sums: Floats = field(default_factory=lambda: np.zeros((0, 0, len(STAKES))), init=False)

    def restart(self, state: State) -> None:
        """Begin anew with the next row: when a run begins, goes on after an alarm, or is tightened.

        Rows so far do not count any more.
        """
        self.bets = bets_of(state.given)
        self.failures = dict.fromkeys(state.given.limits, 0)
        self.first, self.touched = max(len(state.units), 1), NEVER
        self.sums = np.zeros((min(len(state.units), 1), len(self.bets), len(STAKES)))
        self.from_row = self.counted = state.rows.size

    def begin_unit(self, state: State, unit: Unit) -> None:
        """One more step; the keys that returned in the last one are judged now."""
        if len(self.sums):
            self._count(state, unit.before)
            self.sums[-1] = [self._of_step(state, bet, unit.number - 1) for bet in self.bets]
            self.touched = min(self.touched, len(self.sums) - 1)
        self.sums = np.append(self.sums, np.zeros((1, *self.sums.shape[1:])), axis=0)

    def add_losses(self, state: State, name: str, rows: Integers) -> None:
        """Losses that were not known before, and are stored by now."""
        rows = rows[rows >= self.from_row]
        if not len(rows) or not len(self.sums):
            return
        before = rows[rows < self.counted]
        is_new, limit = state.rows["arm"][rows] > 0, state.given.limits[name]
        for place, bet in enumerate(self.bets):
            if bet.name == name:
                self._move(state, place, before, -1, math.nan)
                self._move(state, place, before, +1)
                failed = is_new & (self._losses(state, bet, rows) > bet.level)
        if is_new.any():
            at = state.rows["at"]
            self._count(state, int(np.searchsorted(at, at[rows[is_new].max()], side="right")))
        self.failures[name] += int(failed.sum())
        if failed.any() or limit.is_relative:
            earliest = int(state.rows["unit"][rows].min()) - self.first
            self.touched = min(self.touched, earliest)

    def withdraw(self, state: State, rows: Integers) -> None:
        """Rows that do not count."""
        rows = rows[(rows >= self.from_row) & (rows < self.counted)]
        for place in range(len(self.bets)):
            self._move(state, place, rows, -1)

    def shown(self, state: State, now: int) -> tuple[str, str] | None:
        """The alarm that the bets raise, if any; only ends of steps that changed are tried."""
        settings = state.given
        if settings.stop is None or not len(self.sums):
            return None
        self._count_silence(state, now)
        touched, self.touched = self.touched, NEVER
        if touched >= len(self.sums) or max(self.failures.values()) < FEWEST_FAILURES:
            return None
        limit = math.log(len(self.bets) / settings.stop)
        for end in range(touched + 1, len(self.sums) + 1):
            wealth = [self._log_wealth(place, end) for place in range(len(self.bets))]
            if np.logaddexp.reduce(wealth) >= limit:
                return "stop", self._in_words(state, int(np.argmax(wealth)))
        return None

    def is_finished(self, state: State) -> bool:
        """Whether it is shown, when a step ends, that no relative guardrail is exceeded."""
        wealth, numbers = list[float](), range(self.first, len(state.units) + 1)
        for bet in self.bets:
            if bet.limit.is_relative and numbers:
                sums = [self._of_step(state, bet, each, finish=True) for each in numbers]
                wealth.append(log_wealth(np.array(sums)))
        return bool(wealth) and min(wealth) >= math.log(1 / (state.given.stop or 0.05))

    # ---- factors ------------------------------------------------------------------------------

    def _count(self, state: State, until: int) -> None:
        """Let the bets run over all rows before this one."""
        if until <= self.counted:
            return
        rows = state.kept(slice(self.counted, until))
        for place in range(len(self.bets)):
            self._move(state, place, rows, +1)
        self.counted = until

    def _move(
        self, state: State, place: int, rows: Integers, sign: int, loss: float | None = None
    ) -> None:
        """Add or take off the factors of rows, with their losses or with this one; NaN: unknown."""
        rows, bet = self._bet_on(state, rows), self.bets[place]
        losses = self._losses(state, bet, rows) if loss is None else np.full(len(rows), loss)
        units = state.rows["unit"][rows]
        for number in np.unique(units).tolist():
            mine = units == number
            factors = self._factors(state, bet, rows[mine], losses[mine])
            self.sums[number - self.first, place] += sign * factors

    def _factors(
        self, state: State, bet: Bet, rows: Integers, losses: Floats, *, finish: bool = False
    ) -> Floats:
        """The sums of log factors of rows of one step; an unknown loss is the most harmless.

        Those of the finish are from all rows of a step, of the contrary bets.
        """
        found = np.zeros(len(STAKES))
        if not len(rows):
            return found
        number, is_new = int(state.rows["unit"][rows[0]]), state.rows["arm"][rows] > 0
        is_over, known = finish or number < len(state.units), state.rows["known"][rows]
        if not bet.limit.is_relative:
            filled = self._filled(bet, rows, losses, np.zeros(len(rows), bool))
            judged = is_new & (is_over | (known & SEEN_BY_NEW == 0))
            return log_factors(filled[judged], bet.level)
        filled = self._filled(bet, rows, losses, is_new == finish)
        returns, share = (known > 0) & state.given.sticky, state.units[number - 1].level
        coin = np.where(returns, self._returned(state, number) if is_over else 0.0, share)
        rule = bet.limit.delta / bet.limit.bound, bet.limit.ratio
        for mine in (returns | True,) if finish else (returns, ~returns):
            found += relative_log_factors(
                filled[mine], is_new[mine], coin[mine], *rule, finish=finish
            )
        return found

    def _bet_on(self, state: State, rows: Integers) -> Integers:
        """Of a release without the rows of an outage, or taken while an alarm stood."""
        return rows[state.rows["calibration"][rows]] if state.given.kind == RELEASE else rows

    def _rows_of(self, state: State, number: int) -> Integers:
        """The rows of a step that are bet on."""
        rows = state.kept(state.of_unit(number))
        return self._bet_on(state, rows[rows >= self.from_row])

    def _of_step(self, state: State, bet: Bet, number: int, *, finish: bool = False) -> Floats:
        """The sums of log factors of all rows of a step."""
        rows = self._rows_of(state, number)
        return self._factors(state, bet, rows, self._losses(state, bet, rows), finish=finish)

    def _filled(self, bet: Bet, rows: Integers, losses: Floats, waiting: Booleans) -> Floats:
        """The losses, and for those that are not known what they count as."""
        unknown = np.where(rows < self.overdue_before, bet.silence, waiting)
        return np.where(np.isnan(losses), unknown, losses)

    def _returned(self, state: State, number: int) -> float:
        """The new system's part of the keys that returned in a step that is over."""
        step = state.of_unit(number)  # withdrawn rows too: nothing changes it any more
        mine = slice(max(step.start, self.from_row), step.stop)
        returning = (state.rows["known"][mine] > 0) & state.rows["calibration"][mine]
        return float(state.rows["arm"][mine][returning].mean()) if returning.any() else 0.0

    def _losses(self, state: State, bet: Bet, rows: Integers) -> Floats:
        return np.asarray(state.loss(bet.name)[rows] / bet.limit.bound)

    def _log_wealth(self, place: int, end: int) -> float:
        return log_wealth(self.sums[:end, place])

    def _count_silence(self, state: State, now: int) -> None:
        """Count rows as silent whose outcome deadline has passed."""
        deadline = state.given.outcome_deadline
        if deadline is None:
            return
        due = now - int(deadline * 1e6)
        until = int(np.searchsorted(state.rows["at"], due, side="right"))
        begin = max(self.overdue_before, self.from_row)
        if until <= begin:
            return
        self._count(state, until)
        rows = state.kept(slice(begin, until))
        for place, bet in enumerate(self.bets):
            silent = rows[np.isnan(state.loss(bet.name)[rows])]
            self._move(state, place, silent, -1, math.nan)
            self._move(state, place, silent, +1, bet.silence)
            silent = silent[state.rows["arm"][silent] > 0]
            earliest = state.rows["unit"][silent].min(initial=NEVER) - self.first
            self.touched = min(self.touched, int(earliest))
            if bet.silence:
                self.failures[bet.name] += len(silent)
        self.overdue_before = until

    def _in_words(self, state: State, place: int) -> str:
        bet, steps = self.bets[place], self.sums[:, place]
        from_step = np.logaddexp.reduce(np.cumsum(steps[::-1], axis=0)[::-1], axis=1)
        since = self.first + int(np.argmax(from_step))  # where the evidence began to grow
        begin, limit = max(self.from_row, state.units[since - 1].before), bet.limit
        kept = state.kept(slice(begin, state.rows.size))
        losses, is_new = state.loss(bet.name)[kept], state.rows["arm"][kept] > 0
        mine, others = (part[~np.isnan(part)] for part in (losses[is_new], losses[~is_new]))
        tolerated = f"{bet.level * limit.bound:.4g}"
        if limit.is_relative:
            more = [f"{limit.delta:g}"] if limit.delta else []
            more += [f"{limit.ratio:.0%} of it"] if limit.ratio else []
            tolerated = "what the old system loses plus " + " and ".join(more)
        who = "system" if state.given.kind == RELEASE else "policy"
        text = f"{bet.name}: the new {who} is shown to lose more than {tolerated}: "
        text += f"{mine.mean() if len(mine) else math.nan:.4g} on {len(mine)} rows"
        text += f" since step {since}" if since > self.first else ""
        missing = int(is_new.sum()) - len(mine)
        if missing and state.given.outcome_deadline is not None:
            text += f", and {missing} without an outcome"
        return text + (f"; the old one {others.mean():.4g}" if len(others) else "")


def bets_of(settings: Settings) -> list[Bet]:
    """What is bet on, in a run with these settings."""
    found = []
    for name, limit in settings.limits.items():
        level = (limit.tolerated or limit.delta or 0.0) / limit.bound
        if not settings.decides_shares:
            level = min(1.5 * level, (level + 1) / 2)
        both = limit.is_relative and settings.outcome_deadline is not None
        found += [Bet(name, limit, level, silence) for silence in ((1.0, 0.0) if both else (1.0,))]
    return found


@dataclass(eq=False)
class Shift:
    """Whether the scores of contexts since row `start` have shifted; the first are the reference.

    It follows from the scores alone, so a dump has only these.
    """

    start: int = 0
    _monitor: ShiftMonitor | None = field(default=None, init=False)

    def shown(self, settings: Settings, scores: NDArray[Any]) -> tuple[str, str] | None:
        """The alarm that the scores of all rows raise, if any."""
        begin = self.start + REFERENCE_CONTEXTS
        if settings.stop is None or len(scores) < begin:
            return None
        if self._monitor is None:
            rng = np.random.default_rng([settings.seed, self.start])
            self._monitor = ShiftMonitor(scores[self.start : begin], settings.stop, rng=rng)
        new = scores[begin + self._monitor.status.seen :]
        if not len(new):
            return None
        status = self._monitor.update(new)
        return ("shift", str(status)) if status.alarm else None
