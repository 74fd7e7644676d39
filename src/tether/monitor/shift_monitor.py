"""A monitor of the null hypothesis that new contexts are exchangeable with the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tether._core import records, validate
from tether._core.arrays import Floats, Integers
from tether.monitor.e_process import EProcess

_POWERS = (0.5, 0.75, 0.9)
_SAVED_GENERATORS = ("PCG64", "PCG64DXSM", "SFC64")
_SCORES_PER_BLOCK = 256  # ranks within a block fit in one byte


def log_factors(p_values: Floats) -> Floats:
    """Log of the factor of each bet: κ·v^(κ − 1), which integrates to 1 over [0, 1].

    v is a view of p that is uniform when p is, and small when scores rise (p), fall (1 − p),
    spread out (2·min(p, 1 − p)) or concentrate (|1 − 2p|).
    """
    two_sided = 2 * np.minimum(p_values, 1 - p_values)
    views = np.stack([p_values, 1 - p_values, two_sided, 1 - two_sided])
    log_views = np.log(np.maximum(views, 2.0**-53))  # the resolution of the generator
    return np.concatenate([math.log(power) + (power - 1) * log_views for power in _POWERS])


class Ranks:
    """A multiset of scores that counts how many are above a new score, or equal to it.

    Kept as a few sorted arrays, each more than twice as long as the next: a score is moved O(log n)
    times in all.
    """

    def __init__(self, scores: Floats) -> None:
        self.sorted = [np.sort(scores)]

    def __len__(self) -> int:
        return sum(map(len, self.sorted))

    def push(self, scores: Floats) -> tuple[Integers, Integers]:
        """Add scores in order; for each, how many earlier ones are above it, and how many equal."""
        above, equal = np.zeros((2, len(scores)), dtype=np.int64)
        for start in range(0, len(scores), _SCORES_PER_BLOCK):
            here = slice(start, start + _SCORES_PER_BLOCK)
            block = scores[here]
            rank = np.unique(block, return_inverse=True)[1].astype(np.uint8)
            earlier = np.tri(len(block), k=-1, dtype=np.bool_)
            above[here] = np.count_nonzero((rank[None, :] > rank[:, None]) & earlier, axis=1)
            equal[here] = np.count_nonzero((rank[None, :] == rank[:, None]) & earlier, axis=1)
            for known in self.sorted:
                left, right = (np.searchsorted(known, block, side) for side in ("left", "right"))
                above[here] += len(known) - right
                equal[here] += right - left
            merged = np.sort(block)
            while self.sorted and len(self.sorted[-1]) <= 2 * len(merged):
                merged = np.sort(np.concatenate([self.sorted.pop(), merged]), kind="stable")
            self.sorted.append(merged)
        return above, equal


@dataclass(frozen=True, kw_only=True)
class ShiftStatus(EProcess):
    """What is known about a shift after `seen` scores, the reference not counted."""

    def __str__(self) -> str:
        told = f"after {self.seen} scores the p-value of no shift is {self.p_value:.2g}"
        return f"{self.evidence('score')}; {told}" if self.alarm else f"no alarm: {told}"


class ShiftMonitor(records.Saved):
    """Raise an alarm when scores of the contexts no longer look like the reference.

    A conformal test martingale. Promised: if reference and new scores are exchangeable (all orders
    equally likely), the probability that an alarm is ever raised is at most
    `false_alarm_probability`. Assumed: the score function was not fitted to the reference.

    Parameters
    ----------
    reference_scores : array-like of float
        Scores of contexts before any shift.
    false_alarm_probability : float, default 0.05
        The probability with which an alarm may ever be raised while there is no shift.
    rng : numpy.random.Generator
        Breaks ties between equal scores; the monitor keeps using it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = ShiftMonitor(rng.normal(size=500), rng=rng)
    >>> print(monitor.update(rng.normal(size=200)))
    no alarm: after 200 scores the p-value of no shift is 1
    >>> monitor.update(1 + rng.normal(size=100)).alarm_at
    239
    """

    def __init__(
        self,
        reference_scores: ArrayLike,
        false_alarm_probability: float = 0.05,
        *,
        rng: np.random.Generator,
    ) -> None:
        self.e_process = EProcess.start(false_alarm_probability, 4 * len(_POWERS))
        self._rng = validate.generator("rng", rng)
        known = validate.floats("reference_scores", reference_scores, meaning="score", finite=True)
        self._ranks = Ranks(known)

    def __repr__(self) -> str:
        return f"ShiftMonitor({self.reference_size} reference scores): {self.status}"

    @property
    def reference_size(self) -> int:
        """How many scores the reference has."""
        return len(self._ranks) - self.e_process.seen

    def update(self, scores: ArrayLike) -> ShiftStatus:
        """Add scores in order; the result does not depend on how they are batched."""
        array = validate.floats("scores", scores, meaning="score", finite=True)
        self.e_process = self.e_process.update(self._p_values(array), log_factors)
        return self.status

    def _p_values(self, scores: Floats) -> Floats:
        """Each score's rank among itself and all before it, ties broken at random.

        Uniform and independent if the scores are exchangeable.
        """
        before = len(self._ranks) + np.arange(len(scores))
        above, equal = self._ranks.push(scores)
        return np.asarray((above + self._rng.random(len(scores)) * (equal + 1)) / (before + 1))

    @property
    def status(self) -> ShiftStatus:
        """The status after all scores so far."""
        return ShiftStatus(**vars(self.e_process))

    def to_dict(self) -> dict[str, Any]:
        """Return the monitor, with every score, as plain values that JSON can hold."""
        generator = dict(self._rng.bit_generator.state)
        validate.choice("the generator of rng", generator["bit_generator"], _SAVED_GENERATORS)
        scores = np.concatenate(self._ranks.sorted).tolist()
        e_process = records.encode(self.e_process)
        return {"generator": generator, "e_process": e_process, "scores": scores}

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        """A monitor that continues where the saved one stopped, with the same random numbers."""
        e_process = records.decode(EProcess, saved["e_process"], "e_process")
        kind = saved["generator"]["bit_generator"]
        validate.choice("generator", kind, _SAVED_GENERATORS)
        rng = np.random.Generator(getattr(np.random, kind)())
        rng.bit_generator.state = saved["generator"]
        self = cls(saved["scores"], e_process.false_alarm_probability, rng=rng)
        self.e_process = e_process
        return self
