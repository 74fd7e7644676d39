"""A monitor of the null hypothesis that new contexts are exchangeable with the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from tether._core import records, validate
from tether._core.types import Floats
from tether.monitor.betting import STEPS_PER_UPDATE, Wealth
from tether.monitor.e_process import (
    EProcess,
    MonitorStatus,
    check_saved,
    saved_count,
    saved_values,
)
from tether.monitor.ranks import Ranks

BET_POWERS = (0.5, 0.75, 0.9)
"""The exponents κ of the bets κ·v^(κ − 1)."""
_VIEW_COUNT = 4
_SMALLEST_VIEW = 2.0**-53  # the resolution of the generator: a zero counts as this
_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_GENERATOR_POSITIONS = {"MT19937": (("pos", 624),), "Philox": (("buffer_pos", 4),)}
_SAVED_NAMES = ("false_alarm_probability", "reference_size", "scores", "generator", "e_process")


def log_factors(p_values: Floats) -> Floats:
    """Log of the factor of each bet: κ·v^(κ − 1), which integrates to 1 over [0, 1].

    v is a view of p that is uniform when p is, and small when scores rise (p), fall (1 − p),
    spread out (2·min(p, 1 − p)) or concentrate (|1 − 2p|).
    """
    two_sided = 2 * np.minimum(p_values, 1 - p_values)
    views = np.stack([p_values, 1 - p_values, two_sided, 1 - two_sided])
    log_views = np.log(np.maximum(views, _SMALLEST_VIEW))
    return np.concatenate([math.log(power) + (power - 1) * log_views for power in BET_POWERS])


@dataclass(frozen=True)
class ShiftStatus(MonitorStatus):
    """What is known about a shift after `seen` scores.

    Parameters
    ----------
    seen : int
        Number of scores so far, without the reference.
    log_wealth : float
        Log of the current wealth of the e-process.
    log_peak : float
        Log of the largest wealth so far.
    alarm_at : int or None
        The score that raised the alarm, counted from 1; None if there is no alarm.
    lowest_at : int
        After how many scores the wealth was at its minimum, for the last time before the alarm; 0
        is the start. The evidence of an alarm grew from the next score on, see `evidence_from`.
    false_alarm_probability : float
        The probability with which an alarm may ever be raised while there is no shift.
    """

    def __str__(self) -> str:
        told = f"after {self.seen} scores the p-value of no shift is {self.p_value:.2g}"
        return f"{self.evidence('score', 'scores')}; {told}" if self.alarm else f"no alarm: {told}"


class ShiftMonitor(records.Saved):
    """Raise an alarm when scores of the contexts no longer look like the reference.

    A conformal test martingale. Promised: if reference and new scores are exchangeable (all orders
    equally likely, as for independent draws from one distribution), the probability that an alarm
    is ever raised is at most `false_alarm_probability`. Assumed: the score function was not fitted
    to the reference.

    Parameters
    ----------
    reference_scores : array-like of float
        Scores of contexts before any shift.
    false_alarm_probability : float, default 0.05
        The probability with which an alarm may ever be raised while there is no shift.
    rng : numpy.random.Generator
        Breaks ties between equal scores; the monitor keeps using it.

    Raises
    ------
    ValueError
        If a score is not finite, or the probability is outside (0, 1).
    TypeError
        If `rng` is not a numpy.random.Generator.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = ShiftMonitor(rng.normal(size=500), rng=rng)
    >>> print(monitor.update(rng.normal(size=200)))
    no alarm: after 200 scores the p-value of no shift is 1
    >>> monitor.update(1 + rng.normal(size=100)).alarm_at
    239
    """

    _kind: ClassVar[str] = "shift monitor"

    def __init__(
        self,
        reference_scores: ArrayLike,
        false_alarm_probability: float = 0.05,
        *,
        rng: np.random.Generator,
    ) -> None:
        self.false_alarm_probability = validate.number(
            "false_alarm_probability", false_alarm_probability, above=0, below=1
        )
        validate.generator("rng", rng)
        self._rng = rng
        self._ranks = Ranks(_finite_scores("reference_scores", reference_scores))
        self.reference_size = len(self._ranks)
        self._e_process = EProcess(
            self.false_alarm_probability, Wealth.start(_VIEW_COUNT * len(BET_POWERS))
        )

    def __repr__(self) -> str:
        return f"ShiftMonitor({self.reference_size} reference scores): {self.status}"

    def update(self, scores: ArrayLike) -> ShiftStatus:
        """Add scores in order; the result does not depend on how they are batched.

        Parameters
        ----------
        scores : array-like of float
            Finite scores of new contexts.

        Returns
        -------
        ShiftStatus
            The status after these scores.

        Raises
        ------
        ValueError
            If a score is not finite; the monitor is then unchanged.
        """
        array = _finite_scores("scores", scores)
        for begin in range(0, len(array), STEPS_PER_UPDATE):
            p_values = self._p_values(array[begin : begin + STEPS_PER_UPDATE])
            self._e_process = self._e_process.update(log_factors(p_values))
        return self.status

    def _p_values(self, scores: Floats) -> Floats:
        """Each score's rank among itself and all before it, ties broken at random.

        Uniform if the scores are exchangeable, and independent: a rank says nothing about the order
        of the scores before it.
        """
        before = len(self._ranks) + np.arange(len(scores))
        above, equal = self._ranks.push(scores)
        return np.asarray((above + self._rng.random(len(scores)) * (equal + 1)) / (before + 1))

    @property
    def status(self) -> ShiftStatus:
        """The status after all scores so far."""
        return ShiftStatus(
            seen=self._e_process.wealth.seen,
            log_wealth=self._e_process.log_wealth,
            log_peak=self._e_process.log_peak,
            alarm_at=self._e_process.alarm_at,
            lowest_at=self._e_process.lowest_at,
            false_alarm_probability=self.false_alarm_probability,
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert the state of the monitor, with every score, to plain values.

        Returns
        -------
        dict
            All that `from_dict` needs to continue, with the same random numbers.
        """
        return {**self.state(), "scores": self._ranks.scores().tolist()}

    def state(self) -> dict[str, Any]:
        """Convert the state of the monitor, without the scores, to plain values.

        Returns
        -------
        dict
            All that `from_dict` needs to continue, together with the scores in any order.
        """
        return {
            "kind": self._kind,
            "false_alarm_probability": self.false_alarm_probability,
            "reference_size": self.reference_size,
            "generator": records.encode(dict(self._rng.bit_generator.state)),
            "e_process": self._e_process.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Restore a monitor that continues exactly where the saved one stopped.

        Parameters
        ----------
        content : mapping
            What `to_dict` returned.

        Returns
        -------
        ShiftMonitor
            The restored monitor, with the state of its random number generator.

        Raises
        ------
        ValueError
            If the content is not a complete and consistent saved shift monitor.
        """
        check_saved(content, cls._kind, _SAVED_NAMES)
        rng = np.random.Generator(_saved_generator(content["generator"]))
        with saved_values():
            self = cls(content["scores"], content["false_alarm_probability"], rng=rng)
        self._e_process = EProcess.from_dict(
            content["e_process"],
            false_alarm_probability=self.false_alarm_probability,
            bets=_VIEW_COUNT * len(BET_POWERS),
        )
        scores, seen = len(self._ranks), self._e_process.wealth.seen
        self.reference_size = saved_count("reference_size", content["reference_size"], 1, scores)
        if self.reference_size + seen != scores:
            raise ValueError(
                f"content has {len(self._ranks)} scores, expected a reference_size of "
                f"{self.reference_size} and the {seen} seen"
            )
        return self

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        return cls.from_dict({"kind": cls._kind} | saved)


def _saved_generator(state: Any) -> np.random.BitGenerator:
    """A generator in a saved state; a state that it cannot have is refused."""
    if not isinstance(state, Mapping):
        raise ValueError(f"generator must be the state of a generator, got {state!r}")
    name = validate.choice("generator", state.get("bit_generator"), _GENERATORS)
    bit_generator: np.random.BitGenerator = getattr(np.random, name)()
    for entry, largest in _GENERATOR_POSITIONS.get(name, ()):  # numpy does not check these
        inner = state["state"] if entry == "pos" and "state" in state else state
        if not isinstance(inner, Mapping) or entry not in inner:
            raise ValueError(f"generator has no entry {entry!r}")
        saved_count(f"generator: {entry}", inner[entry], 0, largest)
    try:
        bit_generator.state = dict(state)
        same = records.encode(dict(bit_generator.state)) == records.encode(dict(state))
    except Exception as error:  # numpy raises errors of many types
        raise ValueError(f"generator is not a state of {name}: {error!r}") from error
    if not same:
        raise ValueError(f"generator is not a complete state of {name}")
    return bit_generator


def _finite_scores(name: str, values: ArrayLike) -> Floats:
    array = validate.floats(name, values)
    if not np.isfinite(array).all():
        validate.reject(name, array, ~np.isfinite(array), "a finite score")
    return array
