"""An e-process: wealth from many bets at once, started at every time, and the alarm it raises.

One unit of money is split over pairs (bet, starting time). Each part waits as cash until its
starting time, and from then on stakes everything on its bet at every step. If every bet is fair or
unfavourable, each part is a supermartingale, and so is their sum, whatever the split. A bet that
starts when the null hypothesis begins to fail has lost nothing while it held.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from tether._core import validate
from tether._core.arrays import Floats

_STEPS_PER_BLOCK = 512  # a factor is at least 1/2, and a float can hold 2^-512 next to 1
_TIE = 1e-9  # rounding must not decide between two equal minima of the log wealth


def log_cash(steps: Floats) -> Floats:
    """Log of the cash left after t steps: 1/(1 + log(1 + t)), which is never used up."""
    return np.asarray(-np.log1p(np.log1p(steps)))


def log_entry(steps: Floats) -> Floats:
    """Log of the cash that enters at step k = 1, 2, …: cash(k − 1) − cash(k), no cancellation."""
    return np.asarray(np.log(np.log1p(1 / steps)) + log_cash(steps) + log_cash(steps - 1))


@dataclass(frozen=True, kw_only=True)
class EProcess:
    """Wealth that starts at 1 and is a supermartingale while the null hypothesis holds.

    Ville's inequality: under the null hypothesis the probability that the wealth *ever* reaches
    1/p is at most p. So the first time it does, with p the false alarm probability, is an alarm,
    which may be checked at every step. An alarm is never withdrawn.

    `log_bets` is the log of what each bet holds after `seen` steps; the rest is cash. `log_lowest`
    is the log of the smallest wealth before the alarm, the start included, and `lowest_at` the last
    step after which it was the smallest so far.
    """

    false_alarm_probability: float
    seen: int = 0
    log_wealth: float = 0.0
    log_peak: float = 0.0
    alarm_at: int | None = None
    lowest_at: int = 0
    log_lowest: float = field(default=0.0, repr=False)
    log_bets: Floats = field(repr=False, compare=False)

    @classmethod
    def start(cls, false_alarm_probability: float, bets: int) -> Self:
        """The start: all of the wealth is cash."""
        probability = validate.number(
            "false_alarm_probability", false_alarm_probability, above=0, below=1
        )
        return cls(false_alarm_probability=probability, log_bets=np.full(bets, -np.inf))

    @property
    def alarm(self) -> bool:
        """Whether an alarm was raised, now or earlier."""
        return self.alarm_at is not None

    @property
    def evidence_from(self) -> int | None:
        """The observation from which the evidence of the alarm grew; None if there is no alarm.

        The first after the last minimum of the wealth before the alarm. An estimate of when the
        null hypothesis began to fail; the alarm is valid whether or not it is right.
        """
        return None if self.alarm_at is None else self.lowest_at + 1

    @property
    def p_value(self) -> float:
        """An anytime-valid p-value of the null hypothesis: one over the largest wealth so far."""
        return math.exp(-self.log_peak)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that is printed, and what follows from it, as plain values."""
        names = [each.name for each in fields(self) if each.repr]
        return {name: getattr(self, name) for name in (*names, "alarm", "evidence_from", "p_value")}

    def evidence(self, observation: str) -> str:
        """Between which observations the evidence of an alarm grew, in words."""
        grew = f"the evidence grew from {observation} {self.evidence_from} on"
        return f"ALARM at {observation} {self.alarm_at}: {grew}"

    def update(self, observed: Floats, log_factors: Callable[[Floats], Floats]) -> EProcess:
        """The e-process after more observations, in order.

        `log_factors` turns them into the log of the factor by which each bet (a row) multiplies its
        money at each of them, at least log(1/2) where there are several.
        """
        log_bets, paths = self.log_bets, []
        for begin in range(0, len(observed), _STEPS_PER_BLOCK):
            block = observed[begin : begin + _STEPS_PER_BLOCK]
            log_bets, path = _play(log_bets, self.seen + begin, log_factors(block))
            paths.append(path)
        path = np.concatenate(paths)
        alarm_at, lowest, lowest_at = self.alarm_at, self.log_lowest, self.lowest_at
        if alarm_at is None:
            crossings = np.flatnonzero(path >= -math.log(self.false_alarm_probability))
            before = path
            if len(crossings):
                alarm_at, before = self.seen + int(crossings[0]) + 1, path[: crossings[0]]
            minima = np.minimum.accumulate(np.append(lowest, before))
            at_lowest = np.flatnonzero(before <= minima[1:] + _TIE)
            if len(at_lowest):
                lowest_at = self.seen + int(at_lowest[-1]) + 1
            lowest = float(minima[-1])
        return replace(
            self,
            seen=self.seen + len(path),
            log_wealth=float(path[-1]),
            log_peak=max(self.log_peak, float(path.max())),
            alarm_at=alarm_at,
            lowest_at=lowest_at,
            log_lowest=lowest,
            log_bets=log_bets,
        )


def _play(log_bets: Floats, seen: int, log_factors: Floats) -> tuple[Floats, Floats]:
    """What the bets hold after a block of steps, and the log of the wealth after each of them."""
    steps = seen + np.arange(1.0, 1 + log_factors.shape[1])
    growth = np.cumsum(log_factors, axis=1)
    # Money that enters at step k grows from k on. In units of the block's start it is worth
    # entry / (growth before k); the running sum of these, times growth, is what the bet holds.
    entries = log_entry(steps) - np.log(len(log_bets)) - (growth - log_factors)
    largest = np.maximum(log_bets, entries.max(axis=1))[:, None]
    held = np.cumsum(np.exp(entries - largest), axis=1) + np.exp(log_bets[:, None] - largest)
    held = growth + largest + np.log(held)
    wealth = np.logaddexp.reduce(np.vstack([held, log_cash(steps)]), axis=0)
    return held[:, -1], wealth
