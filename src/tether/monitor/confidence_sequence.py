"""An empirical-Bernstein confidence sequence for the running mean of conditional expectations.

For x in [0, 1], any guess made before x is seen, and 0 ≤ λ < 1 (Fan, Grama and Liu; Howard,
Ramdas, McAuliffe and Sekhon), with ψ(λ) = −log(1 − λ) − λ,

    exp(λ·Σ(x − E[x | past]) − ψ(λ)·Σ(x − guess)²)

is a supermartingale. A weighted sum of these over several λ is one too, and bounds the error of the
mean at all times simultaneously. The expectations may change over time in any way.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tether._core.types import Floats

_RATES = 0.75 * 0.5 ** np.arange(24)  # the best λ decreases as 1/√n: enough for n up to 10^13
_COSTS = -np.log1p(-_RATES) - _RATES
_WEIGHTS = 1 / (np.arange(1, 25) * np.arange(2, 26))
_LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())
_NEWTON_STEPS = 8


def deviation_bound(squares: ArrayLike, error_probability: float) -> Floats:
    """A bound on Σ(x − E[x | past]) that is ever exceeded with at most the error probability.

    `squares` is Σ(x − guess)² at each time.

    >>> deviation_bound([0.0, 100.0, 10_000.0], 0.025).round(1)
    array([  5.7,  38.4, 383.7])
    """
    return _deviation_bound(squares, -math.log(error_probability))


def _deviation_bound(squares: ArrayLike, threshold: float) -> Floats:
    """The same for the log of one over the error probability, which never overflows."""
    spread = np.asarray(squares, dtype=np.float64)[..., None]
    # A single λ gives a bound in closed form that is slightly too large. Newton's method decreases
    # from there to the bound of the weighted sum: that function is convex, so no step overshoots.
    bound = ((threshold - _LOG_WEIGHTS + _COSTS * spread) / _RATES).min(axis=-1, keepdims=True)
    for _ in range(_NEWTON_STEPS):
        log_terms = _LOG_WEIGHTS + _RATES * bound - _COSTS * spread
        largest = log_terms.max(axis=-1, keepdims=True)
        terms = np.exp(log_terms - largest)
        total = terms.sum(axis=-1, keepdims=True)
        slope = (terms * _RATES).sum(axis=-1, keepdims=True) / total
        bound = bound - (largest + np.log(total) - threshold) / slope
    return np.asarray(bound[..., 0])


def confidence_interval(
    seen: ArrayLike, total: ArrayLike, squares: ArrayLike, error_probability: float
) -> tuple[Floats, Floats]:
    """Lower and upper limits for the mean of E[x | past], from n, Σx and Σ(x − guess)².

    All intervals over time hold simultaneously with probability at least 1 − error_probability.
    """
    reach = _deviation_bound(squares, math.log(2) - math.log(error_probability))
    count, total = np.asarray(seen), np.asarray(total)
    return np.maximum((total - reach) / count, 0.0), np.minimum((total + reach) / count, 1.0)
