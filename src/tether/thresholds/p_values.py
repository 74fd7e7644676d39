"""Valid p-values for the hypothesis "the risk is above alpha", from losses in [0, 1].

They are super-uniform for independent, identically distributed losses: wherever the risk is above
alpha, the probability of a p-value of at most δ is at most δ, at any sample size.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tether._core.arrays import TIE_TOLERANCE, Floats

MOST_ADAPTIVE_ITEMS = 2000
"""With more items the stakes are the same for all of them, so that all thresholds take one pass."""
FIXED_STAKES = (1.0, 3.0)
"""They are these multiples of the one for losses of 0 and 1 with mean alpha; wealth is averaged."""


def binomial(sums: ArrayLike, count: ArrayLike, alpha: float) -> Floats:
    """P(Binomial(count, alpha) ≤ sums), exact for losses that are 0 or 1.

    >>> binomial([0, 2, 10], 100, 0.1).round(4)
    array([0.    , 0.0019, 0.5832])
    """
    from scipy.special import betainc

    sums, count = np.asarray(sums, dtype=np.float64), np.asarray(count, dtype=np.float64)
    successes = np.ceil(sums - TIE_TOLERANCE * np.maximum(sums, 1))  # 3.0000000001 is a rounded 3
    inside = np.clip(successes, 0, np.maximum(count - 1, 0))  # betainc needs successes < count
    tail = betainc(np.maximum(count - inside, 1), inside + 1, 1 - alpha)
    return np.where(successes < count, tail, 1.0)


def hoeffding_bentkus(sums: ArrayLike, count: ArrayLike, alpha: float) -> Floats:
    """The smaller of Hoeffding's and Bentkus's bounds, from the sum of `count` losses.

    >>> hoeffding_bentkus([0.0, 2.0, 10.0], 100, 0.1).round(4)
    array([0.    , 0.0053, 1.    ])
    """
    sums, count = np.asarray(sums, dtype=np.float64), np.asarray(count, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(count > 0, sums / count, 1.0)  # no observations, no evidence
        low = np.clip(mean, 0.0, alpha)
        entropy = np.where(low > 0, low * np.log(low / alpha), 0.0)
    entropy = entropy + (1 - low) * np.log((1 - low) / (1 - alpha))
    both = np.minimum(np.exp(-count * entropy), math.e * binomial(sums, count, alpha))
    return np.asarray(np.minimum(both, 1.0))


def fixed_stakes(alpha: float, level: float, count: int) -> list[float]:
    """The stakes of all items, where they are too many for stakes of their own."""
    unit = math.sqrt(2 * math.log(1 / level) / (count * alpha * (1 - alpha)))
    return [min(unit * each, 0.99 / (1 - alpha)) for each in FIXED_STAKES]


def betting(losses: Floats, alpha: float, level: float, count: ArrayLike) -> Floats:
    """The inverse of the largest wealth of a bettor against the hypothesis, one per column.

    Waudby-Smith and Ramdas: stake a share of the wealth, chosen from past losses only, on the next
    loss being below alpha. While the risk is above alpha the wealth is a supermartingale, so the
    probability that it ever reaches 1/p is at most p. Stakes are tuned to `count` items and
    `level`. Rows are items, in an order that does not depend on their losses; NaN is an item that
    a column leaves out.
    """
    played = ~np.isnan(losses)
    value = np.where(played, losses, 0.0)
    seen = np.cumsum(played, axis=0)
    mean = (0.5 + np.cumsum(value, axis=0)) / (1 + seen)
    squares = np.cumsum(np.where(played, value - mean, 0.0) ** 2, axis=0)
    variance = (0.25 + squares) / (1 + seen)
    past = np.concatenate([np.full((1, losses.shape[1]), 0.25), variance[:-1]])
    stake = np.sqrt(2 * math.log(1 / level) / (np.maximum(count, 1.0) * past))
    growth = np.where(played, np.log1p(-np.minimum(stake, 1.0) * (value - alpha)), 0.0)
    return np.asarray(np.exp(-np.maximum(np.cumsum(growth, axis=0).max(axis=0), 0.0)))
