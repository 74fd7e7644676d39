"""When a promise is worth stating, and what the logs cost on which nothing passes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tether._core.arrays import Floats, within_limit

CAUTIOUS_STANDARD_ERRORS = 1.4
"""How many standard errors are added to the safe mean of a log on which something passes."""


@dataclass(frozen=True)
class SafeMean:
    """The mean loss of the safe choice over a log, with its standard error.

    >>> safe = safe_mean(np.array([0.0, 1.0] * 50), 1.0, np.ones(100), 1.0)
    >>> round(safe.excess(0.5), 3), safe.excess(0.9) < 1e-9
    (0.02, True)
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

        All of E[(m − α)₊] falls on these logs, on which the safe choice looks better than it is.
        Both matter near alpha only: the error is that of a safe risk of alpha, the mean is 1.4 of
        these and one more loss higher. Of k losses of one `step` each the error is √(k + 1) steps.
        """
        step = (math.hypot(self.mean, 2 * self.standard_error) - self.mean) / 2
        error = max(self.standard_error, math.sqrt(alpha * step))
        return SafeMean(self.mean + step + CAUTIOUS_STANDARD_ERRORS * error, error).excess(alpha)


def safe_mean(losses: Floats, bound: float, weights: Floats, test_weight: float) -> SafeMean:
    """The mean loss of the safe choice, from weighted rows and a next one that costs the bound."""
    total = float(weights.sum())
    mean = float(weights @ losses) / total
    off = np.append(weights * (losses - mean), test_weight * (bound - mean))
    return SafeMean(mean, float(np.linalg.norm(off)) / (total + test_weight))


def is_useful(promise: float, tolerated: float, bound: float) -> bool:
    """Whether a promise on the expected loss is worth stating as success.

    It is at most twice what is tolerated (alpha, or the promise that was asked for), and at most
    95 % of the way from there to the bound, within which every loss lies anyway.

    >>> is_useful(0.12, 0.1, 1.0), is_useful(0.25, 0.1, 1.0), is_useful(0.99, 0.6, 1.0)
    (True, False, False)
    """
    limit = min(2 * tolerated, tolerated + 0.95 * (bound - tolerated))
    return bool(within_limit(promise, limit))
