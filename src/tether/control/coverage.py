"""Whether the log contains what the tethered policy does.

The weights w_i = tethered/mixture density of the rows have mean 1 if every density is right and the
policies that produced the log can take every action of the tethered policy. The mean is smaller
where they never took some of its actions: the log then says nothing of what these cost, however
small the calibrated risk is. If no weight exceeds W, the true mean is at most

    mean + sqrt(2·V·log(2/p)/n) + 7·W·log(2/p)/(3·(n − 1))

except with probability p, where V is the sample variance (Maurer and Pontil, 2009). If this limit
is below 1, then the statements about W or about the densities are wrong. Where W is the largest
weight of m draws, the share of actions beyond all of them is at most log(1/p)/m, likewise.

What the optimized policy does must be there too, where its ratios are bounded.
The ratio r_i = optimized/acting probability of the action in row i, drawn by the policy that acted
there, has the expectation m_i: the share of the optimized policy's decisions that the acting policy
can take, 1 unless tables tell otherwise. With no ratio above W_i in the context of row i and any
stake s with s·W_i < 1, the product over rows of 1 + s·(m_i − r_i) is never negative and has
expectation 1. So an average of such products over several stakes exceeds 1/p with probability at
most p (`tether._core.averaged_bets`), for any number of rows and however skewed the ratios are. If
it does, rows are missing, or actions were taken with other probabilities than stated. The largest
share c for which the product with c·m_i in place of m_i does not exceed 1/p is what the coverage is
at most, up to chance.

This is far sharper than a limit by the variance: ratios that average 0.8 instead of 1 among 5,000
rows with W = 10 are no chance.

Several policies may have acted, each chosen after the rows of those before it: given the past and
the context of row i its factor still has expectation 1, so that the product is a martingale. This
needs the policy of each row (`Acting`). The mixture of all policies will not do. Its ratios
optimized/mixture average to 1 over the policies, not in every row, and it contains policies that
were chosen after the row: where a later policy prefers the actions that earlier rows of the same
contexts have, as one that was trained on them does, their ratios are too small in an honest log. So
nothing is said of logs that state the mixture alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether._core.averaged_bets import beyond_chance
from tether._core.types import Floats
from tether.control.log import acting_in

if TYPE_CHECKING:
    from tether.control.log import Log

COVERAGE_FALSE_ALARM = 1e-6
"""The probability with which true scores fail the check."""
COVERAGE_MARGIN = 0.01
"""How far below 1 the limit may be: what rounded propensities may move it by."""

LOG_STAKES = -np.log(2) * np.arange(1, 17)
"""The logs of the stakes, which share the capital."""
LARGEST_STAKE = 0.9
"""The largest stake, relative to one over the largest ratio."""
LIMIT_STEPS = 20
"""How often the interval that holds the limit is halved."""

RESTRICTED_WORDS = "restricted to the safe policy's actions"
"""Words by which a warning of actions that are never taken is recognized, also once saved."""


COVERED_TETHERED, COVERED_OPTIMIZED = "this policy", "the optimized policy"
"""Whose decisions a coverage is about, in words."""


class Coverage(NamedTuple):
    """The mean of the weights, what the true mean is at most, and the policy in words."""

    mean: float
    limit: float
    policy: str = COVERED_TETHERED


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


class ActedRatios(NamedTuple):
    """The ratios optimized/acting of rows, what each is expected to be, and what it is at most."""

    ratio: Floats
    expected: Floats
    largest: Floats

    @property
    def bounded(self) -> bool:
        """Whether every ratio has a limit."""
        return bool(np.isfinite(self.largest).all())

    def bets(self, share: float) -> Iterator[Floats]:
        """What each stake gains in each row, if only `share` of each expectation is there."""
        gain, limit = share * self.expected - self.ratio, LARGEST_STAKE / self.largest
        return (np.minimum(stake, limit) * gain for stake in np.exp(LOG_STAKES))


def acted_ratios(log: Log, largest_seen: float | None = None) -> ActedRatios | None:
    """The ratios of the rows; None if they have no known bound, or who acted is not known.

    `largest_seen` is the largest ratio of all rows, where these are some of them.
    """
    acting = acting_in(log)
    if acting is None:
        return None
    with np.errstate(over="ignore"):  # an infinite ratio has no bound
        ratios = np.exp(log.log_optimized - acting.log_logged)
    expected: Floats | float = 1.0
    largest: Floats
    if acting.log_logged_all is not None and log.log_optimized_all is not None:
        possible = acting.log_logged_all > -np.inf
        expected = np.exp(log.log_optimized_all).sum(axis=1, where=possible)
        with np.errstate(invalid="ignore", over="ignore"):
            rest = np.where(possible, log.log_optimized_all - acting.log_logged_all, -np.inf)
            largest = np.maximum(np.exp(rest.max(axis=1)), 1.0)
    elif log.max_ratio is not None and acting.log_base_limit is not None:
        seen = ratios.max() if largest_seen is None else largest_seen
        with np.errstate(over="ignore"):
            largest = np.maximum(log.max_ratio * np.exp(acting.log_base_limit), seen)
    else:
        return None
    return ActedRatios(ratios, np.broadcast_to(expected, ratios.shape), largest)


def optimized_coverage(log: Log) -> Coverage | None:
    """The optimized policy's coverage where it is too small to be chance; None where it is not.

    None as well where the ratios have no known bound, or where several policies took the actions
    and the log does not say which of them took which.
    """
    found = acted_ratios(log)
    if found is None or not found.bounded or not found.expected.mean() > 0:
        return None

    def refuted(shares: Sequence[float]) -> list[bool]:
        return [_refuted(found, share) for share in shares]

    mean = float(found.ratio.mean()) / float(found.expected.mean())
    return refuted_coverage(mean, refuted)


def refuted_coverage(
    mean: float, refuted: Callable[[Sequence[float]], Sequence[bool]], halvings: int = 1
) -> Coverage | None:
    """The coverage whose limit is the largest share that bets do not refute; None if all may be.

    `refuted` is asked about so many shares at once that the interval can be halved several times.
    """
    low, most = 0.0, 1 - COVERAGE_MARGIN
    if not refuted([most])[0]:
        return None
    for _ in range(LIMIT_STEPS // halvings):
        points = [low, most]
        for _ in range(halvings):
            middles = [(left + right) / 2 for left, right in itertools.pairwise(points)]
            points = sorted(points + middles)
        inside = points[1:-1]
        fails = dict(zip(inside, refuted(inside), strict=True))
        for _ in range(halvings):
            middle = (low + most) / 2
            low, most = (low, middle) if fails[middle] else (middle, most)
    return Coverage(mean, max(mean, most), COVERED_OPTIMIZED)


def settled_by_sums(sums: Iterable[float]) -> bool:
    """Whether the sums of bets are too small for any capital to be beyond chance.

    log(1 + x) ≤ x: plain sums, which take far less time, settle most logs.
    """
    return max(sums) <= -math.log(COVERAGE_FALSE_ALARM)


def _refuted(found: ActedRatios, share: float) -> bool:
    """Whether ratios this small are no chance, if only `share` of each expectation is there."""
    if settled_by_sums(float(bet.sum()) for bet in found.bets(share)):
        return False
    capitals = [np.log1p(bet).sum() for bet in found.bets(share)]
    return beyond_chance(capitals, COVERAGE_FALSE_ALARM)
