"""What the calibrated share may add to alpha: its expected excess, in the worst case.

With n rows of a new system of risk R and a bound ρ on the old one's risk, a share s in expectation
costs (R − ρ)·E[s] above ρ, and what is allowed is α − ρ. The calibrated share can exceed this,
because it is a convex function of the rows where it is below 1. The excess depends on n, ρ, α and
R alone, and is largest for some R above alpha: about ρ·(1 − α)/(n·(R − ρ)²) of α − ρ for many rows.

It is computed as an exact sum over the losses of 0 and B, and maximized over R. Losses between 0
and B with the same mean had a smaller excess in every case that was tried (`tests/release`); the
exact share needs no such term, and its theorem covers all of them.
"""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats
from tether.release.risk_bounds import expected_bound
from tether.release.share_formulas import calibrated_share

RISKS_NEAR_ALPHA, RISKS_ABOVE = 32, 48
"""How many risks are tried within a few standard errors of alpha, and up to the bound."""
NEGLIGIBLE_TAIL = 1e-13
"""The probability of outcomes that are left out of a sum, on either side."""


def worst_excess(rows: int, old_bound: float, alpha: float, bound: float = 1.0) -> float:
    """The largest expected excess of the calibrated share over alpha, over all new systems.

    >>> round(worst_excess(200, 0.01, 0.02), 5), round(worst_excess(10_000, 0.01, 0.02), 6)
    (0.00043, 5e-05)
    """
    if rows == 0 or old_bound >= alpha:
        return 0.0
    risks = _risks(rows, alpha / bound)
    excesses = [_excess(rows, float(risk), old_bound, alpha, bound) for risk in risks]
    return max(0.0, *excesses)


def _risks(rows: int, alpha: float) -> Floats:
    """Risks above alpha, as shares of the bound, close together where one row matters."""
    error = np.sqrt(alpha * (1 - alpha) / rows) + 1 / rows
    near = alpha + error * np.linspace(0.05, 8.0, RISKS_NEAR_ALPHA)
    far = np.geomspace(alpha, 1.0, RISKS_ABOVE)[1:]
    return np.concatenate((near[near < 1], far))


def _excess(rows: int, risk: float, old_bound: float, alpha: float, bound: float) -> float:
    from scipy.stats import binom  # takes a second to import, which a reader need not wait for

    first, last = binom.ppf([NEGLIGIBLE_TAIL, 1 - NEGLIGIBLE_TAIL], rows, risk)
    losses = np.arange(max(first, 0.0), last + 1)
    new_bound = expected_bound(np.array(rows), bound * losses, bound)
    share = calibrated_share(np.array(old_bound), new_bound, np.array(alpha))
    mean_share = float(binom.pmf(losses, rows, risk) @ share)
    return (bound * risk - old_bound) * mean_share - (alpha - old_bound)
