"""Valid p-values for the hypothesis "the risk is above alpha", from losses in [0, 1].

Both are super-uniform for independent, identically distributed losses: wherever the risk is above
alpha, the probability of a p-value at most δ is at most δ, at any sample size.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tether._core.ties import TIE_TOLERANCE, within_limit
from tether._core.types import Floats, Integers


def _hoeffding(mean: ArrayLike, count: ArrayLike, alpha: float) -> Floats:
    """Hoeffding's bound with the relative entropy between the mean and alpha."""
    low = np.minimum(mean, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(low > 0, low * np.log(low / alpha), 0.0)
    entropy = first + (1 - low) * np.log((1 - low) / (1 - alpha))
    return np.asarray(np.exp(-np.asarray(count) * entropy))


def _bentkus(successes: ArrayLike, count: ArrayLike, alpha: float) -> Floats:
    """The tail P(Binomial(count, alpha) ≤ successes), times e."""
    from scipy.special import betainc

    successes, count = np.asarray(successes), np.asarray(count)
    inside = np.clip(successes, 0, np.maximum(count - 1, 0))  # betainc needs successes < count
    tail = np.where(
        successes < count, betainc(np.maximum(count - inside, 1), inside + 1, 1 - alpha), 1
    )
    return np.asarray(math.e * np.where(successes < 0, 0.0, tail))


def hoeffding_bentkus(sums: ArrayLike, count: ArrayLike, alpha: float) -> Floats:
    """The smaller of Hoeffding's and Bentkus's bounds, from the sum of `count` losses.

    >>> hoeffding_bentkus([0.0, 2.0, 10.0], 100, 0.1).round(4)
    array([0.    , 0.0053, 1.    ])
    """
    sums, count = np.asarray(sums, dtype=np.float64), np.asarray(count, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(count > 0, sums / count, 1.0)  # no observations, no evidence
    rounded_up = np.ceil(sums - TIE_TOLERANCE * np.maximum(sums, 1))  # 3.0000000001 is a rounded 3
    both = np.minimum(_hoeffding(mean, count, alpha), _bentkus(rounded_up, count, alpha))
    return np.asarray(np.minimum(both, 1.0))


def largest_rejected_sum(count: int, alpha: float, level: float) -> float:
    """The largest sum of losses with a Hoeffding–Bentkus p-value at most `level`; −1 if none.

    The p-value increases with the sum, so a sweep is tested by one comparison per threshold.
    """

    def rejected(p_value: Floats) -> bool:
        return bool(within_limit(p_value, level))

    # Bentkus's bound depends on the sum rounded up to an integer: bisect between integers.
    low, high = -1, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rejected(_bentkus(middle, count, alpha)) else (low, middle)
    bentkus_limit = float(low)
    if not rejected(_hoeffding(0.0, count, alpha)):
        return bentkus_limit
    below, above = 0.0, alpha * count
    while below < (middle_sum := (below + above) / 2) < above:
        inside = rejected(_hoeffding(middle_sum / count, count, alpha))
        below, above = (middle_sum, above) if inside else (below, middle_sum)
    return max(bentkus_limit, below)


class Betting:
    """The wealth of a bettor against the hypothesis "the risk is above alpha", per column.

    Waudby-Smith and Ramdas: stake a share of the wealth, chosen from past losses only, on the next
    loss being below alpha. While the risk is above alpha the wealth is a supermartingale, so the
    probability that it ever reaches 1/p is at most p. Stakes are tuned to `count` items and
    `level`. Items may come in blocks of any size: each stake depends only on the items before it,
    so the p-value does not depend on the blocks.
    """

    def __init__(self, alpha: float, level: float, count: float | Floats | Integers) -> None:
        self.alpha, self.level, self.count = alpha, level, count
        self._seen: float | Floats = 0.0
        self._sum: float | Floats = 0.0
        self._squares: float | Floats = 0.0
        self._log_wealth: float | Floats = 0.0
        self._best: float | Floats = 0.0

    def update(self, losses: Floats) -> None:
        """Bet on the next items (rows); NaN is an item that a column leaves out."""
        played = ~np.isnan(losses)
        value = np.where(played, losses, 0.0)
        seen = self._seen + np.cumsum(played, axis=0)
        total = self._sum + np.cumsum(value, axis=0)
        mean = (0.5 + total) / (1 + seen)
        squares = self._squares + np.cumsum(np.where(played, value - mean, 0.0) ** 2, axis=0)
        variance = (0.25 + squares) / (1 + seen)
        # The stake on an item uses the variance before it: the first row uses the carried one.
        carried = (0.25 + self._squares) / (1 + self._seen)
        past = np.concatenate([np.broadcast_to(carried, (1, losses.shape[1])), variance[:-1]])
        stake = np.sqrt(2 * math.log(1 / self.level) / (np.maximum(self.count, 1.0) * past))
        stake = np.minimum(1.0, stake)
        growth = np.where(played, np.log1p(-stake * (value - self.alpha)), 0.0)
        log_wealth = self._log_wealth + np.cumsum(growth, axis=0)
        self._best = np.maximum(self._best, log_wealth.max(axis=0))
        self._seen, self._sum = seen[-1], total[-1]
        self._squares, self._log_wealth = squares[-1], log_wealth[-1]

    def p_values(self) -> Floats:
        """The inverse of the largest wealth so far, one per column."""
        return np.asarray(np.exp(-np.maximum(self._best, 0.0)))
