"""Valid p-values for "the risk is above alpha", from losses in [0, 1].

Both are super-uniform for independent, identically distributed losses: wherever the risk is above
alpha, the chance of a p-value at most delta is at most delta, at any sample size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tether._core.ties import TIE_TOLERANCE, within_limit
from tether._core.types import Floats


def _hoeffding(mean: Any, count: Any, alpha: float) -> Floats:
    """Hoeffding's bound with the relative entropy between the mean and alpha."""
    low = np.minimum(mean, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(low > 0, low * np.log(low / alpha), 0.0)
    entropy = first + (1 - low) * np.log((1 - low) / (1 - alpha))
    return np.asarray(np.exp(-count * entropy))


def _bentkus(whole: Any, count: Any, alpha: float) -> Floats:
    """The tail P(Binomial(count, alpha) ≤ whole), times e."""
    from scipy.special import betainc

    inside = np.clip(whole, 0, np.maximum(count - 1, 0))  # the incomplete beta needs whole < count
    chance = np.where(
        whole < count, betainc(np.maximum(count - inside, 1), inside + 1, 1 - alpha), 1
    )
    return np.asarray(math.e * np.where(whole < 0, 0.0, chance))


def hoeffding_bentkus(sums: Any, count: Any, alpha: float) -> Floats:
    """The smaller of Hoeffding's and Bentkus's bounds, from the sum of `count` losses.

    >>> hoeffding_bentkus([0.0, 2.0, 10.0], 100, 0.1).round(4)
    array([0.    , 0.0053, 1.    ])
    """
    sums, count = np.asarray(sums, dtype=np.float64), np.asarray(count, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(count > 0, sums / count, 1.0)  # nothing seen: nothing shown
    whole = np.ceil(sums - TIE_TOLERANCE * np.maximum(sums, 1))  # 3.0000000001 is a rounded 3
    both = np.minimum(_hoeffding(mean, count, alpha), _bentkus(whole, count, alpha))
    return np.asarray(np.minimum(both, 1.0))


def largest_rejected_sum(count: int, alpha: float, level: float) -> float:
    """The largest sum of losses with a Hoeffding–Bentkus p-value at most `level`; −1 if none.

    The p-value rises with the sum, so a whole sweep is tested by one comparison a threshold.
    """

    def passes(pvalue: Floats) -> bool:
        return bool(within_limit(pvalue, level))

    # Bentkus only sees the sum rounded up to a whole number: halve between whole numbers.
    low, high = -1, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(_bentkus(middle, count, alpha)) else (low, middle)
    whole = float(low)
    if not passes(_hoeffding(0.0, count, alpha)):
        return whole
    below, above = 0.0, alpha * count
    while below < (middle_sum := (below + above) / 2) < above:
        passed = passes(_hoeffding(middle_sum / count, count, alpha))
        below, above = (middle_sum, above) if passed else (below, middle_sum)
    return max(whole, below)


class Betting:
    """Wealth of a bettor against "the risk is above alpha", one game a column.

    Waudby-Smith and Ramdas: stake a share of the wealth, chosen from past losses only, on the next
    loss being below alpha. While the risk is above alpha the wealth is a supermartingale, so the
    chance that it ever reaches 1/p is at most p. Stakes are tuned to `count` items and `level`.
    Blocks of items may come in any sizes: what was learned from one carries over to the next and
    never back, hence the p-value is the same.
    """

    def __init__(self, alpha: float, level: float, count: Any) -> None:
        self.alpha, self.level, self.count = alpha, level, count
        self._seen: Any = 0.0
        self._sum: Any = 0.0
        self._squares: Any = 0.0
        self._log_wealth: Any = 0.0
        self._best: Any = 0.0

    def update(self, losses: Floats) -> None:
        """Play the next items (rows); NaN is an item that a column's game leaves out."""
        played = ~np.isnan(losses)
        value = np.where(played, losses, 0.0)
        seen = self._seen + np.cumsum(played, axis=0)
        total = self._sum + np.cumsum(value, axis=0)
        mean = (0.5 + total) / (1 + seen)
        squares = self._squares + np.cumsum(np.where(played, value - mean, 0.0) ** 2, axis=0)
        variance = (0.25 + squares) / (1 + seen)
        # The stake on an item uses the variance before it: the first row uses what was carried.
        carried = (0.25 + self._squares) / (1 + self._seen)
        past = np.concatenate([np.broadcast_to(carried, (1, losses.shape[1])), variance[:-1]])
        stake = np.sqrt(2 * math.log(1 / self.level) / (np.maximum(self.count, 1.0) * past))
        stake = np.minimum(1.0, stake)
        growth = np.where(played, np.log1p(-stake * (value - self.alpha)), 0.0)
        log_wealth = self._log_wealth + np.cumsum(growth, axis=0)
        self._best = np.maximum(self._best, log_wealth.max(axis=0))
        self._seen, self._sum = seen[-1], total[-1]
        self._squares, self._log_wealth = squares[-1], log_wealth[-1]

    def pvalues(self) -> Floats:
        """One over the largest wealth so far, one a column."""
        return np.asarray(np.exp(-np.maximum(self._best, 0.0)))
