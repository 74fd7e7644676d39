"""Bounds on the risk of one system from its rows: in expectation, and at all times at once.

**In expectation.** With n rows whose losses sum to L, (L + B)/(n + 1) is in expectation at least
the risk: the next loss is at most B, and the mean of n + 1 exchangeable losses has the expectation
of any of them. It needs n to be chosen without the losses.

**At all times.** For losses with mean m given the past and any q in (0, 1), each factor
(q/m)^l·((1 − q)/(1 − m))^(1 − l), with l the loss over B and m in the same units, has expectation
at most 1: it is convex in l, hence at most l·q/m + (1 − l)·(1 − q)/(1 − m). Products of the factors
are supermartingales, and so is their average over q with a Beta(a, b) prior,

    W_m = B(a + Σl, b + n − Σl)/B(a, b) / (m^Σl·(1 − m)^(n − Σl)).

By Ville's inequality the true mean ever has W_m ≥ 1/δ with probability at most δ. So with
probability at least 1 − δ the mean is, at every time, at most the largest m with W_m < 1/δ. Rows
may be taken in any number that depends on past losses, and the bound may be looked at whenever one
likes. The prior is fixed before the release: its mean is alpha, where the bound matters most.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from tether._core.arrays import Floats

PRIOR_WEIGHT = 1.0
"""The first parameter of the Beta prior; the second gives it the mean alpha."""
BOUND_BISECTIONS = 60
"""How often the interval that holds a bound is halved."""


def expected_bound(rows: Floats, total: Floats, bound: float) -> Floats:
    """(L + B)/(n + 1), which is B without rows.

    >>> expected_bound(np.array([0, 99]), np.array([0.0, 1.0]), 1.0)
    array([1.  , 0.02])
    """
    return np.asarray((np.asarray(total) + bound) / (np.asarray(rows) + 1.0))


def anytime_bound(rows: Floats, total: Floats, bound: float, alpha: float, error: float) -> Floats:
    """The upper end of the confidence sequence, rounded upwards; `error` is δ.

    >>> anytime_bound(np.array([0, 100, 2000]), np.array([0, 0, 20]), 1.0, 0.02, 0.05).round(4)
    array([1.    , 0.0402, 0.0185])
    """
    n, l = np.broadcast_arrays(  # noqa: E741
        np.asarray(rows, np.float64), np.asarray(total) / bound
    )
    share = alpha / bound
    a, b = PRIOR_WEIGHT, PRIOR_WEIGHT * (1 - share) / share
    prior = betaln(a + l, b + n - l) - betaln(a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(n > 0, l / np.maximum(n, 1.0), 1.0)
    high = np.ones_like(low)
    for _ in range(BOUND_BISECTIONS):
        middle = (low + high) / 2
        log_wealth = prior - xlogy(l, middle) - xlog1py(n - l, -middle)
        rejected = log_wealth >= -np.log(error)  # and so is every larger mean
        low, high = np.where(rejected, low, middle), np.where(rejected, middle, high)
    return np.asarray(bound * high)
