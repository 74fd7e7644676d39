"""A confidence sequence for the mean of what was expected so far: empirical Bernstein.

For x in [0, 1], any guess made before x is seen, and 0 ≤ λ < 1 (Fan, Grama and Liu; Howard,
Ramdas, McAuliffe and Sekhon), with ψ(λ) = −log(1 − λ) − λ,

    exp(λ·Σ(x − E[x | past]) − ψ(λ)·Σ(x − guess)²)

is a supermartingale. A weighted sum of these over a few λ is one too, and bounds the error of the
mean at all times at once. Nothing is assumed about how the expectation moves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tether._core.types import Floats

_RATE = 0.75 * 0.5 ** np.arange(24)  # the best rate falls as 1/√n: enough for n up to 10^13
_COST = -np.log1p(-_RATE) - _RATE
_SHARE = 1 / (np.arange(1, 25) * np.arange(2, 26))
_LOG_SHARE = np.log(_SHARE / _SHARE.sum())
_NEWTON_STEPS = 8


def largest_error(squares: Any, delta: float) -> Floats:
    """What the sum of x − E[x | past] does not exceed at any time, but for a chance of delta.

    >>> largest_error([0.0, 100.0, 10_000.0], 0.025).round(1)
    array([  5.7,  38.4, 383.7])
    """
    spread = np.asarray(squares, dtype=np.float64)[..., None]
    enough = math.log(1 / delta)
    # One rate alone gives a bound in closed form, a little too large. From there Newton's method
    # comes down to the bound of the sum; that function is convex, so no step goes below the root.
    error = ((enough - _LOG_SHARE + _COST * spread) / _RATE).min(axis=-1, keepdims=True)
    for _ in range(_NEWTON_STEPS):
        each = _LOG_SHARE + _RATE * error - _COST * spread
        top = each.max(axis=-1, keepdims=True)
        part = np.exp(each - top)
        total = part.sum(axis=-1, keepdims=True)
        slope = (part * _RATE).sum(axis=-1, keepdims=True) / total
        error = error - (top + np.log(total) - enough) / slope
    return np.asarray(error[..., 0])


def interval(seen: Any, total: Any, squares: Any, delta: float) -> tuple[Floats, Floats]:
    """Lower and upper end for the mean of E[x | past], from Σx and Σ(x − guess)².

    Both hold at all times together with a chance of at least 1 − delta.
    """
    reach = largest_error(squares, delta / 2)
    return np.maximum((total - reach) / seen, 0.0), np.minimum((total + reach) / seen, 1.0)
