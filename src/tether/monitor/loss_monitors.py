"""Monitors of the null hypothesis that the expected loss is at most alpha.

The step of a `RiskMonitor` is a loss; that of a `KeyMonitor`, for keys that come back, a window of
time such as a day. Let x_i in [0, 1] be the mean loss of key i in a window, over the bound. *Null
hypothesis:* given the past and who comes, the x_i are independent, and the *mean over keys* of
their expectations p_i is at most alpha; some keys may be known to fail always. For a stake
λ ≤ 1/alpha fixed before the window, as a geometric mean is at most the arithmetic one,

    E[Π_i (1 + λ·(x_i − alpha))] = Π_i (1 + λ·(p_i − alpha)) ≤ (1 + λ·(mean p − alpha))^n ≤ 1.

So the product over the keys of a window is an e-value given the past. A bet per loss is not: fifty
equal losses of one key would multiply the wealth fifty times. Nor may wealth be checked during a
window: the past may tell which keys fail, and it would then depend on their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.arrays import Floats
from tether._core.records import Saved
from tether.monitor.e_process import EProcess

_RATES = 0.75 * 0.5 ** np.arange(24)  # the best λ decreases as 1/√n: enough for n up to 10^13
_COSTS = -np.log1p(-_RATES) - _RATES
_LOG_WEIGHTS = -np.log(np.arange(1, 25) * np.arange(2, 26) * 24 / 25)
_NOT_STARTED = EProcess(false_alarm_probability=0.5, log_bets=np.empty(0))


def confidence_interval(
    seen: ArrayLike, total: ArrayLike, squares: ArrayLike, error_probability: float
) -> tuple[Floats, Floats]:
    """Lower and upper limits for the mean of E[x | past], from n, Σx and Σ(x − guess)².

    All intervals over time hold simultaneously with probability at least 1 − error_probability, for
    x in [0, 1] and guesses made before x is seen. For 0 ≤ λ < 1 and ψ(λ) = −log(1 − λ) − λ (Fan,
    Grama and Liu; Howard, Ramdas, McAuliffe and Sekhon)

        exp(λ·Σ(x − E[x | past]) − ψ(λ)·Σ(x − guess)²)

    is a supermartingale, and so is a weighted sum of these over several λ, no term of which can
    reach 1/error_probability while the sum does not.
    """
    threshold = math.log(2) - math.log(error_probability)  # one half for each side
    spread = np.asarray(squares, dtype=np.float64)[..., None]
    reach = ((threshold - _LOG_WEIGHTS + _COSTS * spread) / _RATES).min(axis=-1)
    count, sums = np.asarray(seen), np.asarray(total)
    lower, upper = (sums - reach) / count, (sums + reach) / count
    return np.maximum(lower, 0.0), np.minimum(upper, 1.0)


def stakes(alpha: float) -> Floats:
    """The stakes λ that are bet, for losses in [0, 1]: halving from 1/(2·alpha) to about 1/16.

    The last suits a risk that exceeds alpha by a few per cent.
    """
    largest = 0.5 / max(alpha, 1e-6)  # a smaller alpha would gain nothing from a larger stake
    count = 1 + math.ceil(math.log2(16 * largest))
    return np.asarray(largest * 0.5 ** np.arange(count))


@dataclass(frozen=True, kw_only=True)
class RiskStatus(EProcess):
    """What is known about the risk after `seen` observations, with `alarm` and `p_value`.

    Parameters
    ----------
    observation : str
        What is observed: "loss" or, for keys that come back, "window".
    alpha : float
        The tolerated expected loss.
    mean : float
        The mean so far, of the losses or of the windows' means; NaN before the first.
    lower, upper : float
        Limits of the mean *expected* loss so far. All intervals over time hold simultaneously with
        probability at least 1 − false_alarm_probability.
    """

    observation: str
    alpha: float
    mean: float
    lower: float
    upper: float

    def __str__(self) -> str:
        plural = {"loss": "losses"}.get(self.observation, f"{self.observation}s")
        observed = f"{self.seen} {self.observation if self.seen == 1 else plural}"
        if self.alarm:  # the interval is of all losses, and may well contain the level
            return (
                f"{self.evidence(self.observation)}: too high for alpha {self.alpha:g} (p "
                f"{self.p_value:.2g}; {self.false_alarm_probability:g} raises an alarm). The mean "
                f"of all {observed}, from the first on, is {self.mean:.4g}"
            )
        return (
            f"no alarm: after {observed} the mean is {self.mean:.4g}, mean risk in "
            f"[{self.lower:.3g}, {self.upper:.3g}] (alpha {self.alpha:g}, p {self.p_value:.2g})"
        )


@dataclass(eq=False, repr=False)
class LossMonitor(Saved):
    """Bets on losses above alpha; `total` and `squares` are of losses over the bound."""

    alpha: float
    bound: float = 1.0
    false_alarm_probability: float = 0.05
    e_process: EProcess = field(default=_NOT_STARTED, kw_only=True)
    total: float = field(default=0.0, kw_only=True)
    squares: float = field(default=0.0, kw_only=True)

    _observation: ClassVar[str]

    def __post_init__(self) -> None:
        self.bound = validate.number("bound", self.bound, above=0, below=math.inf)
        self.alpha = validate.number("alpha", self.alpha, above=0, below=self.bound)
        self._level = self.alpha / self.bound
        self._stakes = stakes(self._level)
        if self.e_process is _NOT_STARTED:
            self.e_process = EProcess.start(self.false_alarm_probability, len(self._stakes))

    def __repr__(self) -> str:
        settings = f"alpha={self.alpha:g}, bound={self.bound:g}"
        return f"{type(self).__name__}({settings}): {self.status}"

    @property
    def status(self) -> RiskStatus:
        """The status after all losses so far."""
        seen, mean, lower, upper = self.e_process.seen, math.nan, 0.0, 1.0
        if seen:
            mean, error = self.total / seen, self.false_alarm_probability
            limits = confidence_interval(seen, self.total, self.squares, error)
            lower, upper = map(float, limits)
        return RiskStatus(
            **vars(self.e_process),
            observation=self._observation,
            alpha=self.alpha,
            mean=mean * self.bound,
            lower=lower * self.bound,
            upper=upper * self.bound,
        )

    def _scaled(self, losses: ArrayLike) -> Floats:
        array = validate.losses("losses", losses)
        validate.reject_above_bound("losses", array, self.bound)
        return np.asarray(array / self.bound)

    def _log_factors(self, scaled: Floats) -> Floats:
        return np.asarray(np.log1p(self._stakes[:, None] * (scaled - self._level)))

    def _add(self, scaled: Floats, log_factors: Callable[[Floats], Floats]) -> RiskStatus:
        """Add observations; the guess of each, for the interval, is the mean of those before it."""
        totals = np.cumsum(np.append(self.total, scaled))
        steps = self.e_process.seen + np.arange(1, 1 + len(scaled))
        surprises = scaled - (self._level + totals[:-1]) / steps
        self.squares = float(np.cumsum(np.append(self.squares, surprises**2))[-1])
        self.total = float(totals[-1])
        self.e_process = self.e_process.update(scaled, log_factors)
        return self.status


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

    Examples
    --------
    >>> monitor = RiskMonitor(alpha=0.1)
    >>> print(monitor.update([0, 0, 1, 0, 0, 0, 0, 0, 0, 0] * 20))
    no alarm: after 200 losses the mean is 0.1, mean risk in [0.00396, 0.196] (alpha 0.1, p 0.79)
    >>> status = monitor.update([1, 0, 0, 1, 0] * 20)
    >>> status.alarm_at, status.evidence_from
    (236, 193)
    """

    _observation = "loss"

    def update(self, losses: ArrayLike) -> RiskStatus:
        """Add losses in order; the result does not depend on how they are batched."""
        return self._add(self._scaled(losses), self._log_factors)


class KeyMonitor(LossMonitor):
    """Raise an alarm when the losses of keys that come back show that they lose more than alpha.

    Promised: the probability that an alarm is ever raised is at most `false_alarm_probability` if
    in every window, given the past, the expected mean loss of the keys that come is at most alpha.
    Assumed: losses in [0, bound], and keys of one window that are independent of each other given
    the past. The losses of one key may depend on each other in any way.

    Parameters
    ----------
    alpha, bound, false_alarm_probability : float
        As for `RiskMonitor`; alpha is the tolerated mean loss of a key in a window.

    Examples
    --------
    >>> monitor = KeyMonitor(alpha=0.03)
    >>> users = [f"user {k}" for k in range(200)]
    >>> print(monitor.update(users, [1.0] * 4 + [0.0] * 196))
    no alarm: after 1 window the mean is 0.02, mean risk in [0, 1] (alpha 0.03, p 1)
    >>> monitor.update(users, [1.0] * 40 + [0.0] * 160).alarm_at
    2
    """

    _observation = "window"

    def update(self, keys: Iterable[str | bytes | int], losses: ArrayLike) -> RiskStatus:
        """Add a window that is over; when it ends must not depend on the losses.

        Parameters
        ----------
        keys : iterable of str, bytes or int
            The key of each loss; an integer is the same key as its digits. A key with several
            losses counts once, with their mean.
        losses : array-like of float
            Losses in [0, bound]; a window without any changes nothing.
        """
        texts = [key.decode() if isinstance(key, bytes) else str(key) for key in keys]
        if not texts and not np.size(losses):
            return self.status
        scaled = self._scaled(losses)
        validate.same_length("losses", scaled, "keys", len(texts))
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        places = [numbers[text] for text in texts]
        means = np.minimum(np.bincount(places, scaled) / np.bincount(places), 1.0)  # rounding
        log_factors = self._log_factors(means).sum(axis=1, keepdims=True)
        return self._add(means.mean(keepdims=True), lambda _: log_factors)
