"""Whether contexts are still like those of the reference."""

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
from tether.monitor.e_process import Evidence, Report, whole
from tether.monitor.ranks import Ranks

KIND = "shift monitor"
POWERS = (0.5, 0.75, 0.9)
_VIEWS = 4
_SMALLEST = 2.0**-53  # the generator's resolution: a zero is worth no more than this
_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_SAVED = ("delta", "reference_size", "scores", "generator", "evidence")


def log_factors(p_values: Floats) -> Floats:
    """Log of what one unit becomes on each bet: κ·v^(κ − 1), which integrates to 1 over [0, 1].

    v is a view of p that is uniform when p is, and small when scores rise (p), fall (1 − p),
    spread out (2·min(p, 1 − p)) or draw together (|1 − 2p|).
    """
    two_sided = 2 * np.minimum(p_values, 1 - p_values)
    views = np.stack([p_values, 1 - p_values, two_sided, 1 - two_sided])
    log_views = np.log(np.maximum(views, _SMALLEST))
    return np.concatenate([math.log(power) + (power - 1) * log_views for power in POWERS])


@dataclass(frozen=True)
class ShiftReport(Report):
    """What is known about shift after `seen` scores; `alarm` says that there was one."""

    def __str__(self) -> str:
        state = f"ALARM at score {self.alarm_at}" if self.alarm else "no alarm"
        return f"{state}: after {self.seen} scores the p-value of no shift is {self.p_value:.2g}"


class ShiftMonitor:
    """Raises an alarm when a score of the contexts no longer looks like the reference.

    Promised: if reference and new scores are exchangeable (all orders equally likely, as when all
    are drawn alike), the chance that an alarm is ever raised is at most delta. Assumed: the score
    was not fitted to the reference. `rng` breaks ties, and belongs to the monitor from then on.

    >>> rng = np.random.default_rng(0)
    >>> watch = ShiftMonitor(rng.normal(size=500), rng=rng)
    >>> print(watch.update(rng.normal(size=200)))
    no alarm: after 200 scores the p-value of no shift is 1
    >>> watch.update(1 + rng.normal(size=100)).alarm_at
    239
    """

    def __init__(
        self, reference_scores: Any, delta: float = 0.05, *, rng: np.random.Generator
    ) -> None:
        self.delta = validate.number("delta", delta, above=0, below=1)
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}")
        self._rng = rng
        self._ranks = Ranks(_finite("reference_scores", reference_scores))
        self.reference_size = len(self._ranks)
        self._evidence = Evidence(self.delta, Wealth.start(_VIEWS * len(POWERS)))

    def update(self, scores: Any) -> ShiftReport:
        """Take in more scores, in order; batches of any size come to the same."""
        array = _finite("scores", scores)
        for begin in range(0, len(array), CHUNK):  # so that memory stays small
            p_values = self._p_values(array[begin : begin + CHUNK])
            self._evidence = self._evidence.update(log_factors(p_values))
        return self.report

    def _p_values(self, scores: Floats) -> Floats:
        """Each score's place among all before it and itself, ties at random: uniform if all alike.

        Independent of one another too, for the place says nothing about those before it.
        """
        before = len(self._ranks) + np.arange(len(scores))
        above, equal = self._ranks.push(scores)
        return np.asarray((above + self._rng.random(len(scores)) * (equal + 1)) / (before + 1))

    @property
    def report(self) -> ShiftReport:
        """What is known now."""
        known = self._evidence
        return ShiftReport(
            known.wealth.seen, known.log_wealth, known.log_peak, known.alarm_at, self.delta
        )

    def to_dict(self) -> dict[str, Any]:
        """All that is needed to go on later, every score included, as plain values."""
        return {
            "kind": KIND,
            "delta": self.delta,
            "reference_size": self.reference_size,
            "scores": self._ranks.scores().tolist(),
            "generator": records.encode(dict(self._rng.bit_generator.state)),
            "evidence": self._evidence.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """A monitor that goes on where the saved one stood, with the same random numbers."""
        whole(content, KIND, _SAVED)
        state = content["generator"]
        name = validate.choice("generator", state["bit_generator"], _GENERATORS)
        bits = getattr(np.random, name)()
        bits.state = state
        self = cls(content["scores"], content["delta"], rng=np.random.Generator(bits))
        self._evidence = Evidence.from_dict(
            content["evidence"], delta=self.delta, bets=_VIEWS * len(POWERS)
        )
        self.reference_size, seen = content["reference_size"], self._evidence.wealth.seen
        if self.reference_size + seen != len(self._ranks):
            raise ValueError(
                f"content has {len(self._ranks)} scores, expected a reference_size of "
                f"{self.reference_size} and the {seen} seen"
            )
        return self

    def save(self, path: str | Path) -> None:
        """Write the monitor as JSON."""
        records.write(path, KIND, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        return cls.from_dict({"kind": KIND} | records.read(path, KIND))


def _finite(name: str, values: Any) -> Floats:
    array = validate.floats(name, values)
    if not np.isfinite(array).all():
        validate.reject(name, array, ~np.isfinite(array), "a finite score")
    return array
