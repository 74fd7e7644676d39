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
_SAVED_NAMES = ("seen", "log_bets", "log_wealth", "log_peak", "alarm_at")
MAX_STEPS_SEEN = 2**53
"""The most steps that a saved process may have seen: beyond it floats cannot count."""
_WEALTH_TOLERANCE = 1e-9


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
    false_alarm_probability : float
        The probability with which an alarm may ever be raised while the null hypothesis holds.
    """

    seen: int
    log_wealth: float
    log_peak: float
    alarm_at: int | None
    false_alarm_probability: float

    @property
    def alarm(self) -> bool:
        """Whether an alarm was raised, now or earlier."""
        return self.alarm_at is not None

    @property
    def p_value(self) -> float:
        """An anytime-valid p-value of the null hypothesis: one over the largest wealth so far."""
        return math.exp(-self.log_peak)

    def to_dict(self) -> dict[str, Any]:
        """Convert the status to plain values.

        Returns
        -------
        dict
            All fields by name, and the alarm and p-value.
        """
        return asdict(self) | {"alarm": self.alarm, "p_value": self.p_value}


@dataclass(frozen=True)
class EProcess:
    """Wealth that starts at 1 and is a supermartingale while the null hypothesis holds.

    Ville's inequality: under the null hypothesis the probability that the wealth *ever* reaches
    1/p is at most p. So the first time it does, with p the false alarm probability, is an alarm,
    which may be checked at every step. An alarm is never withdrawn.
    """

    false_alarm_probability: float
    wealth: Wealth
    log_wealth: float = 0.0
    log_peak: float = 0.0
    alarm_at: int | None = None

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
        return EProcess(self.false_alarm_probability, wealth, float(path[-1]), peak, alarm_at)

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
            log_wealth, log_peak = (
                validate.number(name, saved[name], above=-math.inf, below=math.inf)
                for name in ("log_wealth", "log_peak")
            )
        self = cls(false_alarm_probability, Wealth(seen, log_bets), log_wealth, log_peak, alarm_at)
        self._check_consistent()
        return self

    def _check_consistent(self) -> None:
        """Refuse a wealth, a peak or an alarm that contradicts the others."""
        held = self.wealth.log_total
        if not math.isclose(held, self.log_wealth, rel_tol=_WEALTH_TOLERANCE, abs_tol=1e-9):
            raise ValueError(f"log_wealth is {self.log_wealth!r}, but log_bets amount to {held!r}")
        if self.log_peak < max(0.0, self.log_wealth):
            raise ValueError(
                f"log_peak must be at least 0 and at least log_wealth = {self.log_wealth!r}, got "
                f"{self.log_peak!r}"
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
