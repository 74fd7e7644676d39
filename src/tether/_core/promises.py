"""When a promise says something, and what logs on which nothing passes cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tether._core.arrays import Floats, within_limit

CAUTIOUS_STANDARD_ERRORS = 1.5
"""How many standard errors are added to a safe mean that was seen because something passed."""
NEAR_STANDARD_ERRORS = 2.0
"""How many standard errors below its limit a safe mean loss still counts as near alpha."""
NEAR_SHARE = 0.95
"""The limit, as a share of alpha, that a safe mean loss should stay clear of."""

LEAST_PLAIN_BOUND, LARGEST_PLAIN_BOUND = 1e-100, 1e100
"""The bounds between which squares of losses can be added as they are."""


@dataclass(frozen=True)
class SafeMean:
    """The mean loss of the safe choice over a log, with its standard error.

    >>> safe = safe_mean(np.array([0.0, 1.0] * 50), bound=1.0)
    >>> round(safe.excess(0.5), 3), safe.excess(0.9) < 1e-9, safe.near(0.5), safe.near(0.9)
    (0.02, True, True, False)
    """

    mean: float
    standard_error: float

    def excess(self, alpha: float) -> float:
        """Estimate E[(m − α)₊]."""
        above, error = self.mean - alpha, self.standard_error
        if error == 0:
            return max(above, 0.0)
        z = above / error
        density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        below = 0.5 * math.erfc(-z / math.sqrt(2))
        return max(error * density + above * below, 0.0)

    def excess_where_passing(self, alpha: float) -> float:
        """Estimate what is added to alpha on the logs on which something passes.

        All of E[(m − α)₊] is deployed on these logs, so on them it counts 1/P(passes) times; and
        on them the safe choice looks better than it is. Both matter near alpha only. Evaluating the
        excess at a mean that is 1.5 standard errors higher covers them: at a safe risk of alpha the
        loss on these logs is 0.8 standard errors above alpha, and the estimate about 0.9.
        """
        return SafeMean(
            self.mean + CAUTIOUS_STANDARD_ERRORS * self.standard_error, self.standard_error
        ).excess(alpha)

    def near(self, alpha: float, share: float = NEAR_SHARE) -> bool:
        """Whether the mean is within two standard errors of a share of alpha, or above that."""
        return self.mean + NEAR_STANDARD_ERRORS * self.standard_error >= share * alpha


def safe_mean(
    losses: Floats,
    bound: float,
    *,
    log_weights: Floats | None = None,
    log_test_weight: float | None = None,
) -> SafeMean:
    """The mean loss of the safe choice, from its losses on the rows of a log.

    With weights (the safe policy's density over that of the mixture that produced the log), mean
    and standard error are those of the self-normalized estimate; the test point has
    `log_test_weight`, by default the largest weight of a row.
    """
    if log_weights is None:
        log_weights = np.zeros(len(losses))
    test = float(log_weights.max()) if log_test_weight is None else log_test_weight
    largest = max(test, float(log_weights.max()))
    weights, test_weight = np.exp(log_weights - largest), math.exp(test - largest)
    scale = _scale(bound)
    losses, bound = losses / scale if scale != 1 else losses, bound / scale
    mean = float(weights @ losses / weights.sum())
    squares = float(
        np.square(weights * (losses - mean)).sum() + (test_weight * (bound - mean)) ** 2
    )
    error = math.sqrt(squares) / float(weights.sum() + test_weight)
    return SafeMean(scale * mean, scale * error)


def mean_from_moments(rows: int, total: float, squares: float, bound: float) -> SafeMean:
    """The mean of many losses without weights, from their sum and that of their squares.

    Both are in units of the bound.
    """
    mean = total / rows
    spread = max(squares - rows * mean**2, 0.0) + (1 - mean) ** 2
    return SafeMean(bound * mean, bound * math.sqrt(spread) / (rows + 1))


def bounded_safe_mean(
    mean: float, bound: float, *, effective_rows: float, test_share: float
) -> SafeMean:
    """The same from the mean alone, with the largest variance that losses in [0, bound] can have.

    `test_share` is the test point's share of all weight; 1 / (n + 1) without weights.
    """
    scale = _scale(bound)
    mean, bound = min(mean, bound) / scale, bound / scale
    variance = mean * (bound - mean) * (1 - test_share) ** 2 / effective_rows
    error = math.sqrt(variance + (test_share * (bound - mean)) ** 2)
    return SafeMean(scale * mean, scale * error)


def _scale(bound: float) -> float:
    """A unit for losses in which squares neither overflow nor vanish; 1 wherever that does."""
    return 1.0 if LEAST_PLAIN_BOUND <= bound <= LARGEST_PLAIN_BOUND else bound


MOST_TIMES_TOLERATED = 2.0
"""A promise of more than this many times what is tolerated is of no use."""
MOST_OF_THE_WAY = 0.95
"""Nor is one that is this far from what is tolerated to the bound, which holds by itself."""


def is_useful(promise: float, tolerated: float, bound: float) -> bool:
    """Whether a promise on the expected loss is worth stating as success.

    It is at most twice what is tolerated (alpha, or the promise that was asked for), and at most
    95 % of the way from there to the bound, within which every loss lies anyway.

    >>> is_useful(0.12, 0.1, 1.0), is_useful(0.25, 0.1, 1.0), is_useful(0.99, 0.6, 1.0)
    (True, False, False)
    """
    nearly_bound = tolerated + MOST_OF_THE_WAY * (bound - tolerated)
    limit = min(MOST_TIMES_TOLERATED * tolerated, nearly_bound)
    return bool(within_limit(promise, limit))


def log_average(log_capitals: ArrayLike) -> float:
    """The log of the average of capitals, given by their logs."""
    logs = np.asarray(log_capitals, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


def beyond_chance(log_capitals: ArrayLike, false_alarm: float) -> bool:
    """Whether the average is above one over the probability of a false alarm.

    Examples
    --------
    >>> import numpy as np
    >>> beyond_chance(np.log([150.0, 0.0001]), 0.01), beyond_chance(np.log([250.0, 0.0001]), 0.01)
    (False, True)
    """
    return log_average(log_capitals) > -float(np.log(false_alarm))
