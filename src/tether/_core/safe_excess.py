"""The third term of a promise: the expected excess of the safe choice over alpha.

A promise in expectation assumes that something passes on almost every log. Where nothing passes,
the safe choice (the safe policy, the safest threshold) is served, on exactly the logs that look
bad. With m the mean loss of the safe choice over the n rows and the test point, what is served has
expected loss of up to E[α; m ≤ α] + E[m; m > α] = α + E[(m − α)₊] before the stability term.

E[(m − α)₊] is estimated from the log by the normal approximation, with the log's own mean and a
standard error that counts one point at the bound. Over logs the estimate is not below the truth:
resampling n + 1 losses from the log replaces equal shares of n + 1 independent losses by unequal
ones, which cannot lower the expectation of a convex function of their mean, and the point at the
bound keeps the standard error above zero where all losses are equal. For Bernoulli losses of mean
alpha the expected estimate is 1.4 times the truth for many rows, 1.5 for 30 rows at alpha = 0.12
and 2.1 for 30 rows at alpha = 0.01, and never below it (exact sums, `tests/_core`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats

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
