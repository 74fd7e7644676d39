"""Bounds on every weight while beta moves through an interval: what certifies the search.

For clip, write v = min(ρ, β)/ψ(β). Numerator and normalizer both rise with β, and both fall when
divided by β. So between two betas a factor e^d apart

    v ≤ min( v's numerator right / ψ left,  e^d · numerator left / ψ right )

and the mirror image from below. Where nothing changes (all ratios on one side of β) the bounds
meet, so a plateau of any length is certified at once. Mix has the same shape, with numerator
1 + β·ρ and normalizer 1 + β. Budgeted clip mixes clip's v and 1 by a share that is monotone on
either side of β = 1. Any other family moves by at most e^(K·d).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.control.families import BudgetedClip, Clip, Mix
from tether.control.problem import Weights


def between(weights: Weights, left: float, right: float) -> tuple[Floats, Floats, float]:
    """Log-weights of the rows from below and from above, and of the test point from above."""
    if isinstance(weights.family, (Clip, BudgetedClip, Mix)) and np.isfinite(left):
        return _quotient_between(weights, left, right)
    rows_left, test_left = weights.at(left)
    if left == right:
        return rows_left, rows_left, test_left
    rows_right, test_right = weights.at(right)
    with np.errstate(invalid="ignore"):
        middle = (rows_left + rows_right) / 2
        known = weights.family.smoothness
        # Without a stated smoothness, the change across the interval stands in for it, doubled.
        spread = np.abs(rows_right - rows_left) if known is None else known * (right - left) / 2
        spread = np.where(np.isfinite(middle), spread, 0.0)
    slack = abs(test_right - test_left) if known is None else known * (right - left) / 2
    return middle - spread, middle + spread, (test_left + test_right) / 2 + slack


def _quotient_between(weights: Weights, left: float, right: float) -> tuple[Floats, Floats, float]:
    mix = isinstance(weights.family, Mix)

    def numerator(ratio: Floats, log_beta: float) -> Floats:
        return np.logaddexp(0.0, ratio + log_beta) if mix else np.minimum(ratio, log_beta)

    def normalizer(log_beta: float) -> Floats:
        psi = weights.log_psi(log_beta)
        return psi + np.logaddexp(0.0, log_beta) if mix else psi

    psi = normalizer(left), normalizer(right)
    given_up = _given_up(weights, left, right, *psi)

    def bounds(ratio: Floats, context: NDArray[np.int64]) -> tuple[Floats, Floats]:
        lower = numerator(ratio, left) - psi[1][context]
        upper = numerator(ratio, right) - psi[0][context]
        low = np.maximum(lower, upper - (right - left))
        high = np.minimum(upper, lower + (right - left))
        if given_up is None:
            return low, high
        least, most = given_up[0][context], given_up[1][context]
        return (
            BudgetedClip.blend(low, 0.0, np.where(low < 0, least, most)),
            BudgetedClip.blend(high, 0.0, np.where(high > 0, least, most)),
        )

    low, high = bounds(weights.ratio, weights.draws.row)
    base = weights.base
    if weights.test_weight == "empirical":
        atoms = weights.atoms
        test = float((bounds(atoms.ratio, atoms.context)[1] + atoms.base).max())
    elif weights.test_weight == "analytic":
        # No ratio is larger than an infinite one, whose numerator is β.
        endless = np.full(len(psi[0]), np.inf)
        test = float(bounds(endless, np.arange(len(psi[0])))[1].max())
        test -= float(np.log(weights.log.safe_share or 1.0))
    else:
        test = float(np.log(weights.test_weight))
    return low + base, high + base, test


def _given_up(
    weights: Weights, left: float, right: float, psi_left: Floats, psi_right: Floats
) -> tuple[Floats, Floats] | None:
    """Log of the least and the most that budgeted clip gives up in each context; None for clip."""
    family = weights.family
    if not isinstance(family, BudgetedClip):
        return None
    ends = [family.log_fallback(left, psi_left), family.log_fallback(right, psi_right)]
    if left < 0 < right:  # acceptance falls until β = 1 and rises from there
        ends.append(family.log_fallback(0.0, weights.log_psi(0.0)))
    return np.minimum.reduce(ends), np.maximum.reduce(ends)
