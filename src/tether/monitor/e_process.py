"""Evidence against a null hypothesis as it comes in, and the alarm when there is enough of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from tether._core import records, validate
from tether._core.types import Floats
from tether.monitor.betting import Wealth


@dataclass(frozen=True)
class Report:
    """What the evidence says after `seen` steps."""

    seen: int
    log_wealth: float
    log_peak: float
    alarm_at: int | None
    """The step that raised the alarm, counted from 1; None while there is no alarm."""
    delta: float

    @property
    def alarm(self) -> bool:
        """Whether there was enough evidence, ever."""
        return self.alarm_at is not None

    @property
    def p_value(self) -> float:
        """A p-value of the null hypothesis at its worst moment; it may be read at any time."""
        return math.exp(-self.log_peak)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self) | {"alarm": self.alarm, "p_value": self.p_value}


@dataclass(frozen=True)
class Evidence:
    """Wealth that starts at 1 and, while the null hypothesis holds, is not expected to grow.

    Ville's inequality: the chance that it *ever* reaches 1/delta is then at most delta. So the
    first time it does is an alarm, and looking at every step costs nothing.
    """

    delta: float
    wealth: Wealth
    log_wealth: float = 0.0
    log_peak: float = 0.0
    alarm_at: int | None = None
    """The step of the alarm, counted from 1; an alarm stays, whatever comes after it."""

    def update(self, log_factors: Floats) -> Evidence:
        """The evidence after more steps (columns of `log_factors`)."""
        wealth, path = self.wealth.play(log_factors)
        crossed = np.flatnonzero(path >= math.log(1 / self.delta))
        alarm_at = self.alarm_at
        if alarm_at is None and len(crossed):
            alarm_at = self.wealth.seen + int(crossed[0]) + 1
        peak = max(self.log_peak, float(path.max()))
        return Evidence(self.delta, wealth, float(path[-1]), peak, alarm_at)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        plain: dict[str, Any] = records.encode(
            {
                "kind": "evidence",
                "seen": self.wealth.seen,
                "log_bets": self.wealth.log_bets,
                "log_wealth": self.log_wealth,
                "log_peak": self.log_peak,
                "alarm_at": self.alarm_at,
            }
        )
        return plain

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, delta: float, bets: int) -> Self:
        """Undo `to_dict`, and refuse what cannot have come from it."""
        whole(content, "evidence", ("seen", "log_bets", "log_wealth", "log_peak", "alarm_at"))
        saved = records.decode(dict(content))
        log_bets = np.array(saved["log_bets"], dtype=np.float64)
        if log_bets.shape != (bets,) or not (log_bets < np.inf).all():
            raise ValueError(f"log_bets must hold {bets} numbers, got {saved['log_bets']!r}")
        seen, alarm_at = saved["seen"], saved["alarm_at"]
        if not isinstance(seen, int) or seen < 0:
            raise ValueError(f"seen must be a whole number of at least 0, got {seen!r}")
        if alarm_at is not None and not (isinstance(alarm_at, int) and 1 <= alarm_at <= seen):
            raise ValueError(f"alarm_at must be None or from 1 to {seen}, got {alarm_at!r}")
        log_wealth, log_peak = (
            validate.number(name, saved[name], above=-math.inf, below=math.inf)
            for name in ("log_wealth", "log_peak")
        )
        return cls(delta, Wealth(seen, log_bets), log_wealth, log_peak, alarm_at)


def whole(content: Mapping[str, Any], kind: str, names: tuple[str, ...]) -> None:
    """Refuse a dictionary that is not a saved monitor of this kind, or lacks some of it."""
    if content.get("kind") != kind:
        raise ValueError(f"content is of kind {content.get('kind')!r}, expected a saved {kind!r}")
    lacking = [name for name in names if name not in content]
    if lacking:
        raise ValueError(f"content is no whole {kind}: it lacks {', '.join(lacking)}")
