"""Whether the expected loss is still at most alpha."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from tether._core import records, validate
from tether._core.types import Floats
from tether.monitor.betting import CHUNK, Wealth
from tether.monitor.confidence_sequence import interval
from tether.monitor.e_process import Evidence, Report, whole

KIND = "risk monitor"
_SAVED = ("alpha", "bound", "delta", "total", "squares", "evidence")


def stakes(alpha: float) -> Floats:
    """The λ that are bet on, for losses in [0, 1]: from 1/(2·alpha) down by halves to about 1/16.

    The first loses half of its money when the loss is 0 and wins most when it is 1; the last is
    right for a risk that exceeds alpha by a few per cent.
    """
    largest = 0.5 / max(alpha, 1e-6)  # a smaller alpha would gain nothing from a larger stake
    count = 1 + math.ceil(math.log2(16 * largest))
    return np.asarray(largest * 0.5 ** np.arange(count))


@dataclass(frozen=True)
class RiskReport(Report):
    """What is known about the risk after `seen` losses; `alarm` says that it exceeded alpha."""

    alpha: float
    mean: float
    """The mean loss so far."""
    lower: float
    """With `upper`: an interval for the mean *expected* loss so far, right at all times together
    with a chance of at least 1 − delta."""
    upper: float

    def __str__(self) -> str:
        state = f"ALARM at loss {self.alarm_at}" if self.alarm else "no alarm"
        return (
            f"{state}: after {self.seen} losses the mean is {self.mean:.4g}, mean risk in "
            f"[{self.lower:.3g}, {self.upper:.3g}] (alpha {self.alpha:g}, p {self.p_value:.2g})"
        )


class RiskMonitor:
    """Raises an alarm when losses show that the risk is above alpha; may be asked at any time.

    Promised: if each loss's expectation given the past is at most alpha, the chance that an alarm
    is ever raised is at most delta. Assumed: losses in [0, bound], in the order they were decided.

    >>> watch = RiskMonitor(alpha=0.1)
    >>> print(watch.update([0, 0, 1, 0, 0, 0, 0, 0, 0, 0] * 20))
    no alarm: after 200 losses the mean is 0.1, mean risk in [0.00661, 0.193] (alpha 0.1, p 0.79)
    >>> watch.update([1, 0, 0, 1, 0] * 20).alarm_at
    236
    """

    def __init__(self, alpha: float, bound: float = 1.0, delta: float = 0.05) -> None:
        self.bound = validate.number("bound", bound, above=0, below=math.inf)
        self.alpha = validate.number("alpha", alpha, above=0, below=self.bound)
        self.delta = validate.number("delta", delta, above=0, below=1)
        self._stakes = stakes(self.alpha / self.bound)
        self._evidence = Evidence(self.delta, Wealth.start(len(self._stakes)))
        self._total = 0.0
        self._squares = 0.0

    def update(self, losses: Any) -> RiskReport:
        """Take in more losses, in order; batches of any size come to the same."""
        array = validate.losses("losses", losses)
        if array.max() > self.bound:
            validate.reject(
                "losses", array, array > self.bound, f"at most the bound {self.bound:g}"
            )
        share = array / self.bound
        self._gather(share)
        for begin in range(0, len(share), CHUNK):  # so that memory stays small
            excess = share[begin : begin + CHUNK] - self.alpha / self.bound
            self._evidence = self._evidence.update(np.log1p(self._stakes[:, None] * excess))
        return self.report

    def _gather(self, share: Floats) -> None:
        """Sums for the interval; the guess for each loss is the mean of those before it."""
        totals = np.cumsum(np.concatenate([[self._total], share]))
        steps = self._evidence.wealth.seen + np.arange(1, 1 + len(share))
        guesses = (self.alpha / self.bound + totals[:-1]) / steps
        self._total = float(totals[-1])
        self._squares = float(
            np.cumsum(np.concatenate([[self._squares], (share - guesses) ** 2]))[-1]
        )

    @property
    def report(self) -> RiskReport:
        """What is known now."""
        evidence, seen = self._evidence, self._evidence.wealth.seen
        mean, lower, upper = math.nan, 0.0, 1.0
        if seen:
            mean = self._total / seen
            lower, upper = map(float, interval(seen, self._total, self._squares, self.delta))
        return RiskReport(
            seen=seen,
            alpha=self.alpha,
            mean=mean * self.bound,
            lower=lower * self.bound,
            upper=upper * self.bound,
            log_wealth=evidence.log_wealth,
            log_peak=evidence.log_peak,
            alarm_at=evidence.alarm_at,
            delta=self.delta,
        )

    def to_dict(self) -> dict[str, Any]:
        """All that is needed to go on later, as plain values that JSON can hold."""
        plain = {name: getattr(self, name) for name in ("alpha", "bound", "delta")}
        sums = {"total": self._total, "squares": self._squares}
        return {"kind": KIND} | plain | sums | {"evidence": self._evidence.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """A monitor that goes on where the saved one stood."""
        whole(content, KIND, _SAVED)
        self = cls(content["alpha"], content["bound"], content["delta"])
        self._total, self._squares = (
            validate.number(name, content[name], above=-1, below=math.inf)
            for name in ("total", "squares")
        )
        self._evidence = Evidence.from_dict(
            content["evidence"], delta=self.delta, bets=len(self._stakes)
        )
        return self

    def save(self, path: str | Path) -> None:
        """Write the monitor as JSON."""
        records.write(path, KIND, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        return cls.from_dict({"kind": KIND} | records.read(path, KIND))
