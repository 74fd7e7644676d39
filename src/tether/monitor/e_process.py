"""An e-process: evidence against a null hypothesis over time, and the alarm it raises."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from tether._core import records, validate
from tether._core.types import Floats
from tether.monitor.betting import Wealth

E_PROCESS_KIND = "e-process"
_SAVED_NAMES = ("seen", "log_bets", "log_wealth", "log_peak", "alarm_at", "log_lowest", "lowest_at")
MAX_STEPS_SEEN = 2**53
"""The most steps that a saved process may have seen: beyond it floats cannot count."""
_WEALTH_TOLERANCE = 1e-9
LOWEST_TOLERANCE = 1e-9
"""How far the log of the wealth may be above its minimum and count as being at it: rounding must
not decide between two equal minima."""


@dataclass(frozen=True)
class MonitorStatus:
    """The state of a monitor after `seen` observations.

    Parameters
    ----------
    seen : int
        Number of observations so far.
    log_wealth : float
        Log of the current wealth of the e-process.
    log_peak : float
        Log of the largest wealth so far.
    alarm_at : int or None
        The observation that raised the alarm, counted from 1; None if there is no alarm.
    lowest_at : int
        After how many observations the wealth was at its minimum, for the last time before the
        alarm; 0 is the start.
    false_alarm_probability : float
        The probability with which an alarm may ever be raised while the null hypothesis holds.
    """

    seen: int
    log_wealth: float
    log_peak: float
    alarm_at: int | None
    lowest_at: int
    false_alarm_probability: float

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

    def evidence(self, observation: str, plural: str) -> str:
        """Say from when to when the evidence of an alarm grew, in words.

        Parameters
        ----------
        observation : str
            What is observed, such as "loss".
        plural : str
            Several of them, such as "losses".

        Returns
        -------
        str
            The words; they do not depend on what is observed after the alarm.
        """
        if self.alarm_at is None:
            return ""
        count = self.alarm_at - self.lowest_at
        many = f"1 {observation}" if count == 1 else f"{count} {plural}"
        return (
            f"ALARM at {observation} {self.alarm_at}: the evidence grew from {observation} "
            f"{self.evidence_from} on, over {many}"
        )

    @property
    def p_value(self) -> float:
        """An anytime-valid p-value of the null hypothesis: one over the largest wealth so far."""
        return math.exp(-self.log_peak)

    def to_dict(self) -> dict[str, Any]:
        """Convert the status to plain values.

        Returns
        -------
        dict
            All fields by name, whether there is an alarm, from when its evidence grew, and the
            p-value.
        """
        derived = ("alarm", "evidence_from", "p_value")
        return asdict(self) | {name: getattr(self, name) for name in derived}


@dataclass(frozen=True)
class EProcess:
    """Wealth that starts at 1 and is a supermartingale while the null hypothesis holds.

    Ville's inequality: under the null hypothesis the probability that the wealth *ever* reaches
    1/p is at most p. So the first time it does, with p the false alarm probability, is an alarm,
    which may be checked at every step. An alarm is never withdrawn.

    `log_lowest` is the log of the smallest wealth before the alarm, the start included, and
    `lowest_at` the last step after which the wealth was the smallest so far: the evidence of an
    alarm grew from the next one on.
    """

    false_alarm_probability: float
    wealth: Wealth
    log_wealth: float = 0.0
    log_peak: float = 0.0
    alarm_at: int | None = None
    log_lowest: float = 0.0
    lowest_at: int = 0

    @property
    def log_alarm_level(self) -> float:
        """Log of the wealth that raises an alarm; finite for every positive probability."""
        return -math.log(self.false_alarm_probability)

    def update(self, log_factors: Floats) -> EProcess:
        """The e-process after more steps (columns of `log_factors`)."""
        wealth, path = self.wealth.play(log_factors)
        crossings = np.flatnonzero(path >= self.log_alarm_level)
        alarm_at = self.alarm_at
        if alarm_at is None and len(crossings):
            alarm_at = self.wealth.seen + int(crossings[0]) + 1
        peak = max(self.log_peak, float(path.max()))
        lowest, lowest_at = self.log_lowest, self.lowest_at
        before = path[: crossings[0]] if len(crossings) else path
        if self.alarm_at is None and len(before):
            minima = np.minimum.accumulate(np.minimum(before, lowest))
            is_lowest = np.flatnonzero(before <= minima + LOWEST_TOLERANCE)
            if len(is_lowest):
                lowest_at = self.wealth.seen + int(is_lowest[-1]) + 1
            lowest = float(minima[-1])
        return EProcess(
            self.false_alarm_probability,
            wealth,
            float(path[-1]),
            peak,
            alarm_at,
            lowest,
            lowest_at,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        plain: dict[str, Any] = records.encode(
            {
                "kind": E_PROCESS_KIND,
                "seen": self.wealth.seen,
                "log_bets": self.wealth.log_bets,
                "log_wealth": self.log_wealth,
                "log_peak": self.log_peak,
                "alarm_at": self.alarm_at,
                "log_lowest": self.log_lowest,
                "lowest_at": self.lowest_at,
            }
        )
        return plain

    @classmethod
    def from_dict(
        cls, content: Mapping[str, Any], *, false_alarm_probability: float, bets: int
    ) -> Self:
        """Invert `to_dict`; content that it cannot have produced is an error."""
        check_saved(content, E_PROCESS_KIND, _SAVED_NAMES)
        saved = {name: records.decode(content[name]) for name in _SAVED_NAMES}
        with saved_values():
            log_bets = validate.floats("log_bets", saved["log_bets"])
            if log_bets.shape != (bets,) or not (log_bets < np.inf).all():
                raise ValueError(f"log_bets must hold {bets} numbers, got {saved['log_bets']!r}")
            seen = saved_count("seen", saved["seen"], 0, MAX_STEPS_SEEN)
            alarm_at = saved["alarm_at"]
            if alarm_at is not None:
                alarm_at = saved_count("alarm_at", alarm_at, 1, seen)
            log_wealth, log_peak, log_lowest = (
                validate.number(name, saved[name], above=-math.inf, below=math.inf)
                for name in ("log_wealth", "log_peak", "log_lowest")
            )
            latest = seen if alarm_at is None else alarm_at - 1
            lowest_at = saved_count("lowest_at", saved["lowest_at"], 0, latest)
        wealth = Wealth(seen, log_bets)
        self = cls(
            false_alarm_probability, wealth, log_wealth, log_peak, alarm_at, log_lowest, lowest_at
        )
        self._check_consistent()
        return self

    def _check_consistent(self) -> None:
        """Refuse a wealth, a peak, a minimum or an alarm that contradicts the others."""
        held = self.wealth.log_total
        if not math.isclose(held, self.log_wealth, rel_tol=_WEALTH_TOLERANCE, abs_tol=1e-9):
            raise ValueError(f"log_wealth is {self.log_wealth!r}, but log_bets amount to {held!r}")
        if self.log_peak < max(0.0, self.log_wealth):
            raise ValueError(
                f"log_peak must be at least 0 and at least log_wealth = {self.log_wealth!r}, got "
                f"{self.log_peak!r}"
            )
        if self.log_lowest > 0 or (self.alarm_at is None and self.log_lowest > self.log_wealth):
            raise ValueError(
                f"log_lowest must be at most 0, and at most log_wealth = {self.log_wealth!r} "
                f"before an alarm, got {self.log_lowest!r}"
            )
        if (self.alarm_at is not None) != (self.log_peak >= self.log_alarm_level):
            raise ValueError(
                f"alarm_at is {self.alarm_at!r}, but log_peak is {self.log_peak!r} and an alarm is "
                f"raised at {self.log_alarm_level!r}"
            )


@contextmanager
def saved_values() -> Iterator[None]:
    """Turn errors about the type of an argument into errors about a saved value."""
    try:
        yield
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error


def saved_count(name: str, value: Any, minimum: int, maximum: int) -> int:
    """One saved integer of a range."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise ValueError(f"{name} must be an integer from {minimum} to {maximum}, got {value!r}")
    return value


def check_saved(content: Mapping[str, Any], kind: str, names: tuple[str, ...]) -> None:
    """Refuse a dictionary that is not a saved record of this kind, or is incomplete."""
    if not isinstance(content, Mapping):
        raise ValueError(f"content must be a saved {kind!r}, got {content!r}")
    if content.get("kind") != kind:
        raise ValueError(f"content is of kind {content.get('kind')!r}, expected a saved {kind!r}")
    missing = [name for name in names if name not in content]
    if missing:
        raise ValueError(f"content is an incomplete {kind}: {', '.join(missing)} missing")
