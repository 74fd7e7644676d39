"""What the calibrated share may add to alpha: a bound that holds for every distribution of losses.

Let B = 1, and let n rows of a new system of risk R > α have losses that sum to l. With
c = (α − ρ)·(n + 1), κ = α·(n + 1) − 1 and u = l − κ the calibrated share is 1 for u ≤ 0 and
c/(c + u) above. Theorem 1 of `share_formulas` does not cover it, so E[s] may exceed
v = (α − ρ)/(R − ρ). The stability term is at least R·(E[s] − v) for every R and every distribution.

**A convex function above the share.** For w ≥ 0 let φ_w be 1 − u/(c + w) for u ≤ w and c/(c + u)
above. The line runs through (0, 1) and meets c/(c + u) again at u = w. So φ_w ≥ s: below 0 the line
is at least 1, and between 0 and w it is a chord of a convex function. φ_w is convex: it is the
larger of the line and of c/(c + u), continued to the left by its tangent at 0. It falls in l. For
w → ∞ it is 1.

**Bernoulli losses are the worst for a convex function.** Replace each loss by a loss of 0 or 1
with the loss as its mean: by Jensen's inequality E[φ_w(l)] ≤ g_w(R), the expectation of φ_w under
the binomial distribution with n and R. (The share itself is not convex: losses between 0 and 1 can
be worse for it than losses of 0 and 1.)

**All risks.** g_w is convex in R: its second derivative is n·(n − 1) times the expectation of a
second difference of φ_w. So between two risks a < b it is at most its chord, and
(R − ρ)·chord − (α − ρ) is a quadratic in R, whose maximum over [a, b] has a closed form. The
smallest over w, times a/(a − ρ) ≥ R/(R − ρ), bounds R·(E[s] − v) on [a, b]; the largest over
intervals that cover [α, 1] is the term. Few w or intervals make it larger, never wrong.

Why R·(E[s] − v) and not (R − ρ)·(E[s] − v): the excess costs (R − R₀)·(E[s] − v), and R₀ may be
anything between 0 and ρ.
"""

from __future__ import annotations

import numpy as np

from tether._core.arrays import Floats

RISKS_NEAR_ALPHA, RISKS_ABOVE, ERRORS_NEAR_ALPHA = 96, 32, 40
"""How many risks divide what is within 40 standard errors of alpha, and what is up to the bound."""
CONVEX_FUNCTIONS = 16
"""How many convex functions φ_w are tried, besides w = 0 and infinity."""
NEGLIGIBLE_TAIL, ROUNDING = 1e-13, 1e-9
"""The probability left out of a sum on either side, and the relative error of a sum; both added."""


def worst_excess(rows: int, old_bound: float, alpha: float, bound: float = 1.0) -> float:
    """What the calibrated share adds to alpha in expectation, at most, for any losses.

    >>> round(worst_excess(200, 0.01, 0.02), 5), round(worst_excess(10_000, 0.01, 0.02), 5)
    (0.00092, 0.00011)
    """
    if rows == 0 or old_bound >= alpha:
        return 0.0
    old, limit = old_bound / bound, alpha / bound
    risks = _risks(rows, limit)
    found = np.array([_binomial_means(rows, float(risk), old, limit) for risk in risks])
    low, high, at_low, at_high = risks[:-1, None], risks[1:, None], found[:-1], found[1:]
    slope = (at_high - at_low) / (high - low)

    def excess(risk: Floats) -> Floats:
        return np.asarray((risk - old) * (at_low + slope * (risk - low)) - (limit - old))

    falling = np.where(slope < 0, slope, -1.0)
    top = np.where(slope < 0, (old + low - at_low / falling) / 2, high)
    largest = np.maximum(excess(high), excess(np.clip(top, low, high)))
    of_intervals = np.maximum(excess(low), largest).min(axis=1) * (low / (low - old))[:, 0]
    return bound * max(0.0, float(of_intervals.max()))


def _risks(rows: int, alpha: float) -> Floats:
    """The ends of intervals that cover [α, 1], close together where one row matters."""
    error = np.sqrt(alpha * (1 - alpha) / rows) + 1 / rows
    near = alpha + ERRORS_NEAR_ALPHA * error * np.linspace(0, 1, RISKS_NEAR_ALPHA) ** 2
    far = np.geomspace(alpha, 1.0, RISKS_ABOVE)[1:-1]
    return np.unique(np.concatenate((near[near < 1], far, [1.0])))


def _binomial_means(rows: int, risk: float, old: float, alpha: float) -> Floats:
    """g_w(R) for each w, rounded upwards; the last is w = infinity."""
    from scipy.stats import binom  # takes a second to import, which a reader need not wait for

    first, last = binom.ppf([NEGLIGIBLE_TAIL, 1 - NEGLIGIBLE_TAIL], rows, risk)
    losses = np.arange(max(first, 0.0), last + 1)
    c, kink = (alpha - old) * (rows + 1), alpha * (rows + 1) - 1
    w = np.concatenate(([0.0], np.geomspace(0.05 * c + 0.01, 50 * (c + 1), CONVEX_FUNCTIONS)))
    u, line = losses - kink, c + w[:, None]
    above = np.where(u <= w[:, None], 1 - u / line, c / (c + np.maximum(u, 0.0)))
    left_out = 2 * NEGLIGIBLE_TAIL * (1 + max(kink, 0.0) / (c + w))
    means = above @ binom.pmf(losses, rows, risk) * (1 + ROUNDING) + left_out
    return np.append(means, 1.0)
