"""Means under one policy estimated from the rows of another, with approximate intervals.

With weights w_i and values v_i the estimate is Σ w_i·v_i / Σ w_i. It needs no normalizing constant,
stays within the range of the values, and moves along when a constant is added to all of them. It is
consistent, with a bias of order one over the number of rows. With the shares s_i = w_i / Σ w_i, its
effective sample size is m = 1 / Σ s_i².

- Values without a limit (rewards) have the interval of Student's t with m − 1 degrees of freedom
  and the jackknife's standard error: leaving row i out moves the mean by
  s_i·(v_i − mean) / (1 − s_i).
- Values in [0, B] (losses) have that of Agresti and Coull, which adds z²/2 rows with the value 0
  and as many with the value B to m effective rows of variance m·Σ s_i²·(v_i − mean)². So it has a
  width even if all values in the log are 0.

Nothing is stated where m is below `LEAST_EFFECTIVE_ROWS`, or where weights that should have a mean
of one are clearly below it: then the log lacks actions that the policy takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from tether._core.types import Floats

LEAST_EFFECTIVE_ROWS = 30.0
"""With fewer effective rows than this, no mean is stated."""
MISSING_STANDARD_ERRORS = 4.0
"""How many standard errors below one a mean weight shows that the log lacks actions."""


@dataclass(frozen=True)
class WeightedMean:
    """An estimated mean with an approximate interval, or why there is none.

    Parameters
    ----------
    mean : float, optional
        The estimate; None if the log does not tell.
    lower, upper : float, optional
        The interval; infinite if all values are equal and nothing else limits them.
    effective_sample_size : float
        How many equally weighted rows the estimate is worth.
    unknown : str, optional
        Why the log does not tell.

    Examples
    --------
    >>> found = weighted_mean(np.tile([0.0, 1.0], 50), np.zeros(100), bound=1.0)
    >>> round(found.mean, 3), round(found.lower, 3), round(found.upper, 3)
    (0.5, 0.404, 0.596)
    """

    mean: float | None
    lower: float | None
    upper: float | None
    effective_sample_size: float
    unknown: str | None = None

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return self.mean is not None

    def __str__(self) -> str:
        if self.mean is None:
            return f"unknown: {self.unknown}"
        return f"{self.mean:.4g} [{self.lower:.4g}, {self.upper:.4g}]"


def weighted_mean(
    values: Floats,
    log_weights: Floats,
    *,
    bound: float | None = None,
    confidence: float = 0.95,
    normalized: bool = False,
    missing: str | None = None,
) -> WeightedMean:
    """Estimate the mean of values under the policy that the weights belong to.

    Parameters
    ----------
    values : ndarray of float
        One finite value per row.
    log_weights : ndarray of float
        The log of each row's importance weight.
    bound : float, optional
        The largest possible value, if values lie between 0 and it.
    confidence : float, default 0.95
        The probability of the interval.
    normalized : bool, default False
        Whether the weights have a mean of one in expectation if the log can show every action.
    missing : str, optional
        Why the log does not tell, where that is known already.

    Returns
    -------
    WeightedMean
        The estimate.
    """
    shares, effective = _shares(log_weights)
    if unknown := _why_unknown(log_weights, effective, normalized) or missing:
        return WeightedMean(None, None, None, effective, unknown)
    unit = float(np.abs(values).max()) or 1.0  # squares of large rewards must not overflow
    scaled = values / unit
    mean = float((shares * scaled).sum())
    if bound is None:
        constant = bool(np.ptp(scaled[shares > 0]) == 0)
        error = _jackknife_error(_moves(scaled, shares, mean))
        half = np.inf if constant else student_quantile(confidence, effective - 1) * error
        low, high = mean - half, mean + half
    else:
        low, high = _bounded_interval(scaled, shares, effective, bound / unit, confidence)
        mean = min(max(mean, low), high)  # rounding errors may take it out of [0, bound]
    with np.errstate(over="ignore"):
        return WeightedMean(mean * unit, float(low * unit), float(high * unit), effective)


def weighted_difference(
    values: Floats,
    log_weights: Floats,
    log_other: Floats,
    *,
    bound: float | None = None,
    confidence: float = 0.95,
) -> WeightedMean:
    """Estimate how much larger the mean is under one policy than under another, on the same rows.

    The parameters are those of `weighted_mean`. Both estimates share their rows, so the interval is
    narrower than the intervals of the two means suggest. It is that of the jackknife, within the
    limits that a bound sets.
    """
    (shares, first), (others, second) = _shares(log_weights), _shares(log_other)
    effective = min(first, second)
    if unknown := _why_unknown(log_weights, effective, normalized=False):
        return WeightedMean(None, None, None, effective, unknown)
    if np.array_equal(shares, others):
        return WeightedMean(0.0, 0.0, 0.0, effective)
    unit = float(np.abs(values).max()) or 1.0
    scaled = values / unit
    mean, other = float((shares * scaled).sum()), float((others * scaled).sum())
    half = np.inf
    if np.ptp(scaled[(shares > 0) | (others > 0)]) > 0:
        error = _jackknife_error(_moves(scaled, shares, mean) - _moves(scaled, others, other))
        half = student_quantile(confidence, effective - 1) * error
    limit = np.inf if bound is None else bound
    low, middle, high = (
        float(np.clip((mean - other + side) * unit, -limit, limit)) for side in (-half, 0.0, half)
    )
    return WeightedMean(middle, low, high, effective)


def _moves(values: Floats, shares: Floats, mean: float) -> Floats:
    """By how much the mean falls when each row is left out."""
    return np.asarray(shares * (values - mean) / (1 - shares))


def _jackknife_error(moves: Floats) -> float:
    return float(np.sqrt(((moves - moves.mean()) ** 2).sum() * (len(moves) - 1) / len(moves)))


def _bounded_interval(
    values: Floats, shares: Floats, effective: float, bound: float, confidence: float
) -> tuple[float, float]:
    """Agresti and Coull's interval, for weighted rows and any values in [0, bound]."""
    added = student_quantile(confidence, np.inf) ** 2
    total = effective + added
    center = (effective * float((shares * values).sum()) + added * bound / 2) / total
    seen = effective * float((shares**2 * (values - center) ** 2).sum())
    variance = (effective * seen + added / 2 * (center**2 + (bound - center) ** 2)) / total
    half = np.sqrt(added * variance / total)
    return max(center - half, 0.0), min(center + half, bound)


def _shares(log_weights: Floats) -> tuple[Floats, float]:
    """Each row's share of the total weight, and the effective sample size."""
    top = log_weights.max()
    if top == -np.inf:
        return np.zeros(len(log_weights)), 0.0
    shares = np.exp(log_weights - top)
    shares /= shares.sum()
    return shares, float(1 / (shares**2).sum())


def why_too_few(effective: float) -> str | None:
    """Why rows tell too little of a policy, in words; None where they are enough."""
    if effective >= LEAST_EFFECTIVE_ROWS:
        return None
    return f"the log is worth {effective:.3g} rows of this policy, too few to tell"


def _why_unknown(log_weights: Floats, effective: float, normalized: bool) -> str | None:
    if few := why_too_few(effective):
        return few
    return why_not_shown(mean_clearly_below_one(log_weights)) if normalized else None


def why_not_shown(mean: float | None) -> str | None:
    """What a mean of weights that is clearly below one says; None without one."""
    return None if mean is None else f"the log shows about {mean:.0%} of what this policy does"


def mean_clearly_below_one(log_weights: Floats) -> float | None:
    """The mean of weights where it is below one by more than chance explains; else None."""
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.exp(log_weights)
        error = weights.std() / np.sqrt(len(weights))
    mean = float(weights.mean())
    return mean if mean + MISSING_STANDARD_ERRORS * error < 1 else None


def student_quantile(confidence: float, degrees: float) -> float:
    """That of Student's t, two-sided; with infinite degrees of freedom, the normal one."""
    if degrees == np.inf:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    from scipy import special  # takes longer to import than numpy

    return float(special.stdtrit(degrees, (1 + confidence) / 2))
