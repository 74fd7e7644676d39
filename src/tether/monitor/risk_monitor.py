"""A monitor of the null hypothesis that the expected loss is at most alpha."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Floats
from tether.monitor.betting import STEPS_PER_UPDATE
from tether.monitor.confidence_sequence import confidence_interval
from tether.monitor.e_process import MonitorStatus
from tether.monitor.loss_monitor import LossMonitor, saved_sum


@dataclass(frozen=True)
class RiskStatus(MonitorStatus):
    """What is known about the risk after `seen` losses.

    Parameters
    ----------
    seen : int
        Number of losses so far.
    log_wealth : float
        Log of the current wealth of the e-process.
    log_peak : float
        Log of the largest wealth so far.
    alarm_at : int or None
        The loss that raised the alarm, counted from 1; None if there is no alarm.
    lowest_at : int
        After how many losses the wealth was at its minimum, for the last time before the alarm; 0
        is the start. The evidence of an alarm grew from the next loss on, see `evidence_from`.
    false_alarm_probability : float
        The probability with which an alarm may ever be raised while the risk is at most alpha.
    alpha : float
        The tolerated expected loss.
    mean : float
        The mean loss so far; NaN before the first.
    lower : float
        Lower limit of a confidence sequence for the mean *expected* loss so far.
    upper : float
        Upper limit. All intervals over time hold simultaneously with probability at least
        1 − false_alarm_probability.
    """

    alpha: float
    mean: float
    lower: float
    upper: float

    def told(self, level: str) -> str:
        """Say what is known, in words.

        Parameters
        ----------
        level : str
            What the risk is compared with, such as "alpha 0.1".

        Returns
        -------
        str
            The words.
        """
        if self.alarm:  # the interval is of all losses, and may well contain the level
            return (
                f"{self.evidence('loss', 'losses')}: too high for {level} (p "
                f"{self.p_value:.2g}; {self.false_alarm_probability:g} raises an alarm). The mean "
                f"of all {self.seen} losses, from the first on, is {self.mean:.4g}"
            )
        return (
            f"no alarm: after {self.seen} losses the mean is {self.mean:.4g}, mean risk in "
            f"[{self.lower:.3g}, {self.upper:.3g}] ({level}, p {self.p_value:.2g})"
        )

    def __str__(self) -> str:
        return self.told(f"alpha {self.alpha:g}")


class RiskMonitor(LossMonitor):
    """Raise an alarm when the losses show that the risk is above alpha.

    Promised: if the conditional expectation of each loss given the past is at most alpha, the
    probability that an alarm is ever raised is at most `false_alarm_probability`. Assumed: losses
    in [0, bound], in the order in which the actions were taken.

    Parameters
    ----------
    alpha : float
        The tolerated expected loss, above 0 and below `bound`.
    bound : float, default 1.0
        The largest possible loss.
    false_alarm_probability : float, default 0.05
        The probability with which an alarm may ever be raised while the risk is at most alpha.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> monitor = RiskMonitor(alpha=0.1)
    >>> print(monitor.update([0, 0, 1, 0, 0, 0, 0, 0, 0, 0] * 20))
    no alarm: after 200 losses the mean is 0.1, mean risk in [0.00661, 0.193] (alpha 0.1, p 0.79)
    >>> status = monitor.update([1, 0, 0, 1, 0] * 20)
    >>> status.alarm_at, status.evidence_from
    (236, 193)
    """

    _kind: ClassVar[str] = "risk monitor"
    _sums: ClassVar[tuple[str, ...]] = ("total", "squares")

    def __init__(
        self, alpha: float, bound: float = 1.0, false_alarm_probability: float = 0.05
    ) -> None:
        super().__init__(alpha, bound, false_alarm_probability)
        self._total = self._squares = 0.0

    def update(self, losses: ArrayLike) -> RiskStatus:
        """Add losses in order; the result does not depend on how they are batched.

        Parameters
        ----------
        losses : array-like of float
            Losses in [0, bound].

        Returns
        -------
        RiskStatus
            The status after these losses.

        Raises
        ------
        ValueError
            If a loss is outside [0, bound] or NaN; the monitor is then unchanged.
        """
        array = validate.losses("losses", losses)
        if array.max() > self.bound:
            validate.reject(
                "losses", array, array > self.bound, f"at most the bound {self.bound:g}"
            )
        scaled = array / self.bound
        self._add_moments(scaled)
        for begin in range(0, len(scaled), STEPS_PER_UPDATE):
            factors = self._log_factors(scaled[begin : begin + STEPS_PER_UPDATE])
            self._e_process = self._e_process.update(factors)
        return self.status

    def _add_moments(self, scaled: Floats) -> None:
        """Sums for the interval; the guess for each loss is the mean of those before it."""
        totals = np.cumsum(np.concatenate([[self._total], scaled]))
        steps = self._e_process.wealth.seen + np.arange(1, 1 + len(scaled))
        guesses = (self.alpha / self.bound + totals[:-1]) / steps
        self._total = float(totals[-1])
        self._squares = float(
            np.cumsum(np.concatenate([[self._squares], (scaled - guesses) ** 2]))[-1]
        )

    @property
    def status(self) -> RiskStatus:
        """The status after all losses so far."""
        e_process, seen = self._e_process, self._e_process.wealth.seen
        mean, lower, upper = math.nan, 0.0, 1.0
        if seen:
            mean = self._total / seen
            limits = confidence_interval(
                seen, self._total, self._squares, self.false_alarm_probability
            )
            lower, upper = map(float, limits)
        return RiskStatus(
            seen=seen,
            alpha=self.alpha,
            mean=mean * self.bound,
            lower=lower * self.bound,
            upper=upper * self.bound,
            log_wealth=e_process.log_wealth,
            log_peak=e_process.log_peak,
            alarm_at=e_process.alarm_at,
            lowest_at=e_process.lowest_at,
            false_alarm_probability=self.false_alarm_probability,
        )

    @property
    def standard_error(self) -> float:
        """The standard error of the mean loss, from how far each was from those before it."""
        seen = self._e_process.wealth.seen
        return self.bound * math.sqrt(self._squares) / seen if seen else math.nan

    def _restore(self, saved: Mapping[str, Any]) -> None:
        seen = self._e_process.wealth.seen
        self._total, self._squares = (
            saved_sum(name, saved[name], seen, "seen = ") for name in self._sums
        )
