"""Whether the log contains what the tethered policy does.

The weights w_i = tethered/mixture density of the rows have mean 1 if every density is right and the
policies that produced the log can take every action of the tethered policy. The mean is smaller
where they never took some of its actions: the log then says nothing of what these cost, however
small the calibrated risk is. If no weight exceeds W, the true mean is at most

    mean + sqrt(2·V·log(2/p)/n) + 7·W·log(2/p)/(3·(n − 1))

except with probability p, where V is the sample variance (Maurer and Pontil, 2009). If this limit
is below 1, then the statements about W or about the densities are wrong. Where W is the largest
weight of m draws, the share of actions beyond all of them is at most log(1/p)/m, likewise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

COVERAGE_FALSE_ALARM = 1e-6
"""The probability with which true scores fail the check."""
COVERAGE_MARGIN = 0.01
"""How far below 1 the limit may be: what rounded propensities may move it by."""

RESTRICTED_WORDS = "restricted to the safe policy's actions"
"""Words by which a warning of actions that are never taken is recognized, also once saved."""


class Coverage(NamedTuple):
    """The mean of the weights, and what the true mean is at most."""

    mean: float
    limit: float


def coverage_of(
    rows: int, log_sum: float, log_squares: float, log_largest: float, draws: int | None = None
) -> Coverage | None:
    """The coverage from the logs of Σ w, Σ w² and W; None if it is unknown.

    `draws` is how many draws W is the largest weight of, if it is not a limit by itself.
    """
    if not (log_sum > -math.inf and log_largest < math.inf) or rows < 2:
        return None
    log_mean = log_sum - math.log(rows)
    if log_mean > 700 or log_squares - math.log(rows) > 700 or log_largest > 700:
        return None
    mean = math.exp(log_mean)
    variance = max(math.exp(log_squares - math.log(rows)) - mean**2, 0.0) * rows / (rows - 1)
    limit = mean_limit(rows, mean, variance, math.exp(log_largest), COVERAGE_FALSE_ALARM)
    beyond_draws = 0.0 if draws is None else -math.log(COVERAGE_FALSE_ALARM) / draws
    return Coverage(mean, limit + beyond_draws)


def mean_limit(
    rows: int, mean: float, variance: float, largest: float, false_alarm: float
) -> float:
    """What the true mean of numbers from 0 to `largest` is at most, up to chance."""
    log_odds = math.log(2 / false_alarm)
    spread = math.sqrt(2 * variance * log_odds / rows)
    return mean + spread + 7 * largest * log_odds / (3 * (rows - 1))


def is_covered(limit: float | None, ratio_error: float) -> bool:
    """Whether a limit is compatible with a mean of 1, if weights may be wrong by a factor."""
    return limit is None or limit * ratio_error >= 1 - COVERAGE_MARGIN
