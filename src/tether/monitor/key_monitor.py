"""A monitor of keys that come back: one bet per key and window, judged when the window is over.

Cut time into windows, such as days. In each window let n keys come, who may have come before, and
let x_i in [0, 1] be the mean loss of key i in it, over the bound. **Null hypothesis:** given
everything before the window, what all its keys have in common, and who comes, the x_i are
independent, and the *mean over keys* of their expectations p_i is at most alpha. Nothing is asked
of a single key: some may be known to fail always. The losses of one key may depend on each other in
any way, within a window and between windows.

**The bets are valid.** Let a stake λ ≤ 1/alpha be fixed before the window. By independence, since
all factors are at least 0, and as a geometric mean is at most the arithmetic mean,

    E[Π_i (1 + λ·(x_i − alpha))] = Π_i (1 + λ·(p_i − alpha)) ≤ (1 + λ·(mean p − alpha))^n ≤ 1.

So the product over the keys of a window is an e-value given the past, the products over windows are
a supermartingale at the *ends* of windows, and so are sums of such products that start with
different windows (`betting`). Ville's inequality does the rest.

**What is not valid.** A bet per loss takes the losses of one key for independent ones: fifty equal
losses of a key multiply the wealth fifty times. And the wealth must not be judged within a window:
it is known from the past which keys fail, so that it depends on their order.

If keys of one window depend on each other beyond what they have in common, a bet on the mean of the
window alone is valid, by `RiskMonitor`: it needs E[mean x | past] ≤ alpha and nothing else. It wins
at most a factor of (mean x)/alpha in a window, however many keys there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether.monitor.betting import STEPS_PER_UPDATE
from tether.monitor.e_process import MAX_STEPS_SEEN, MonitorStatus, saved_count
from tether.monitor.loss_monitor import LossMonitor, saved_sum


@dataclass(frozen=True)
class KeyStatus(MonitorStatus):
    """What is known about keys that come back after `seen` windows.

    Parameters
    ----------
    seen : int
        Number of windows so far.
    log_wealth : float
        Log of the current wealth of the e-process.
    log_peak : float
        Log of the largest wealth so far.
    alarm_at : int or None
        The window that raised the alarm, counted from 1; None if there is no alarm.
    lowest_at : int
        After how many windows the wealth was at its minimum, for the last time before the alarm.
    false_alarm_probability : float
        The probability with which an alarm may ever be raised while the null hypothesis holds.
    alpha : float
        The tolerated mean loss of a key in a window.
    keys : int
        How many keys there were in all windows; a key counts in each window in which it came.
    mean : float
        Their mean loss; NaN before the first.
    latest : float
        The mean loss of the keys of the last window; NaN before the first.
    """

    alpha: float
    keys: int
    mean: float
    latest: float

    def __str__(self) -> str:
        last = f"the mean loss of a key is {self.latest:.4g} in the last window"
        if self.alarm:
            return (
                f"{self.evidence('window', 'windows')}: too high for alpha {self.alpha:g} (p "
                f"{self.p_value:.2g}; {self.false_alarm_probability:g} raises an alarm); {last}"
            )
        many = f"{self.seen} window{'s'[: self.seen != 1]}"
        return (
            f"no alarm after {many}: {last}, and {self.mean:.4g} in all (alpha {self.alpha:g}, p "
            f"{self.p_value:.2g})"
        )


class KeyMonitor(LossMonitor):
    """Raise an alarm when the losses of keys that come back show that they lose more than alpha.

    Promised: the probability that an alarm is ever raised is at most `false_alarm_probability` if
    in every window, given the past, the expected mean loss of the keys that come is at most alpha.
    Assumed: losses in [0, bound], and keys of one window that are independent of each other given
    the past and what they have in common. The losses of one key may depend on each other in any
    way. In a `Release` only the first unit of a key is a row, so this is what watches the others.

    Parameters
    ----------
    alpha : float
        The tolerated mean loss of a key in a window, above 0 and below `bound`.
    bound : float, default 1.0
        The largest possible loss.
    false_alarm_probability : float, default 0.05
        The probability with which an alarm may ever be raised while the null hypothesis holds.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> monitor = KeyMonitor(alpha=0.03)
    >>> users = [f"user {k}" for k in range(200)]
    >>> print(monitor.update(users, [1.0] * 4 + [0.0] * 196))
    no alarm after 1 window: the mean loss of a key is 0.02 in the last window, and 0.02 in all ...
    >>> monitor.update(users, [1.0] * 40 + [0.0] * 160).alarm_at
    2
    """

    _kind: ClassVar[str] = "key monitor"
    _sums: ClassVar[tuple[str, ...]] = ("keys", "total", "latest")

    def __init__(
        self, alpha: float, bound: float = 1.0, false_alarm_probability: float = 0.05
    ) -> None:
        super().__init__(alpha, bound, false_alarm_probability)
        self._keys, self._total, self._latest = 0, 0.0, 0.0

    def update(self, keys: Iterable[str | bytes | int], losses: ArrayLike) -> KeyStatus:
        """Add a window that is over: the losses of the keys that came back in it.

        When a window ends, and which losses of it are here, must not depend on the losses.

        Parameters
        ----------
        keys : iterable of str, bytes or int
            The key of each loss. A key with several losses counts once, with their mean.
        losses : array-like of float
            Losses in [0, bound]. A window without any changes nothing.

        Returns
        -------
        KeyStatus
            The status after this window.

        Raises
        ------
        TypeError
            If a key is of another type, or `keys` is a single key.
        ValueError
            If a loss is outside [0, bound] or NaN, or there is not one for each key; the monitor
            is then unchanged.
        """
        places = _places(keys)
        if not len(places) and not np.size(losses):
            return self.status
        array = validate.losses("losses", losses)
        validate.reject_above_bound("losses", array, self.bound)
        validate.same_length("losses", array, "keys", len(places))
        means = np.bincount(places, array / self.bound) / np.bincount(places)
        means = np.minimum(means, 1.0)  # rounding
        factors = np.zeros((len(self._stakes), 1))
        for begin in range(0, len(means), STEPS_PER_UPDATE):
            each = self._log_factors(means[begin : begin + STEPS_PER_UPDATE])
            factors[:, 0] += each.sum(axis=1)
        self._e_process = self._e_process.update(factors)
        self._keys += len(means)
        self._total += float(means.sum())
        self._latest = float(means.mean())
        return self.status

    @property
    def status(self) -> KeyStatus:
        """The status after all windows so far."""
        e_process = self._e_process
        return KeyStatus(
            seen=e_process.wealth.seen,
            alpha=self.alpha,
            keys=self._keys,
            mean=self._total / self._keys * self.bound if self._keys else math.nan,
            latest=self._latest * self.bound if self._keys else math.nan,
            log_wealth=e_process.log_wealth,
            log_peak=e_process.log_peak,
            alarm_at=e_process.alarm_at,
            lowest_at=e_process.lowest_at,
            false_alarm_probability=self.false_alarm_probability,
        )

    def _restore(self, saved: Mapping[str, Any]) -> None:
        windows = self._e_process.wealth.seen
        self._keys = saved_count("keys", saved["keys"], windows, MAX_STEPS_SEEN * (windows > 0))
        self._total = saved_sum("total", saved["total"], self._keys)
        self._latest = saved_sum("latest", saved["latest"], 1)


def _places(keys: Iterable[str | bytes | int]) -> Any:
    """The number of each loss's key, in the order in which they come first."""
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys must be several keys, such as [{keys!r}], got {keys!r}")
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(_text(key), len(numbers)) for key in keys], np.int64)


def _text(key: str | bytes | int) -> str:
    """A key as text: an integer is the same key as its digits, as in a `Release`."""
    if isinstance(key, bytes):
        return key.decode("utf-8", "surrogateescape")
    if isinstance(key, str | int | np.integer) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"a key must be a str, bytes or int, got {key!r}")
