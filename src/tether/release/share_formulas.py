"""The share of the new system in closed form, from its rows and a bound on the old one's risk.

Let the new system have n rows whose losses sum to L, all in [0, B], and let ρ < α bound the old
system's risk. With R⁺ = (L + B)/(n + 1) the calibrated risk (1 − s)·ρ + s·R⁺ is linear in the share
s, and at most alpha up to the **calibrated share**

    s = 1 if R⁺ ≤ α, else (α − ρ)/(R⁺ − ρ).

Write (α − ρ)/(R⁺ − ρ) as the geometric series (α − ρ)/B·Σ_k r^k·x^(k + 1), with r = ρ/B and
x = B/R⁺ = (n + 1)/(l + 1), l = L/B. The **exact share** replaces each power by a product,

    s = min(1, (α − ρ)/B·Σ_k r^k·T_k),   T_k = Π_{j=1}^{k+1} (n + j)/(l + j),

which is at most x^(k + 1) and equal to it for k = 0. So the exact share is at most the calibrated
one, equal for ρ = 0, and approaches it as n grows.

**Theorem.** For n independent losses in [0, B] with mean R > ρ, n chosen without them, the exact
share has E[s] ≤ (α − ρ)/(R − ρ).

Proof. Let B = 1. It is enough that E[T_k] ≤ R^−(k + 1), since Σ r^k·R^−(k + 1) = 1/(R − ρ). Write
T_k(l, n). With one more independent loss, R·E[T_k(l, n)] = E[l_{n+1}·T_k(l, n)]. Over the n + 1
losses with sum S every one is equally likely to be the last, so this is the expectation of

    1/(n + 1)·Σ_i l_i·Π_j (n + j)/(S − l_i + j),      j = 1 … k + 1.

As a function of l_i each summand is convex on [0, 1] and 0 at 0, hence at most l_i times its value
at 1. At 1 the factors S − 1 + j are S, S + 1, …, S + k, so the sum is at most
Π_{j=2}^{k+1} (n + j)/(S + j − 1) = T_{k−1}(S, n + 1). So R·E[T_k] with n rows is at most E[T_{k−1}]
with n + 1 rows, and T_{−1} = 1. ∎

The calibrated share can exceed (α − ρ)/(R − ρ) in expectation. What this costs at most is the
stability term of the promise. The share of either kind does not grow when a loss grows.
"""

from __future__ import annotations

import numpy as np

from tether._core.arrays import Floats

SERIES_TERMS = 100_000
"""The most terms of the series that are added; fewer terms give a smaller share."""
SERIES_PRECISION = 1e-14
"""The relative size of a term after which the series is cut off."""


def calibrated_share(old_bound: Floats, new_bound: Floats, alpha: Floats) -> Floats:
    """The largest share whose calibrated risk is at most alpha; 0 where ρ ≥ α. Arrays broadcast.

    >>> calibrated_share(np.array(0.01), np.array([1.0, 0.06, 0.03, 0.02]), np.array(0.02))
    array([0.01010101, 0.2       , 0.5       , 1.        ])
    """
    old, new, limit = np.broadcast_arrays(old_bound, new_bound, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (limit - old) / (new - old)
    share = np.where(new <= limit, 1.0, np.clip(between, 0.0, 1.0))
    return np.asarray(np.where(old < limit, share, 0.0))


def exact_share(
    rows: Floats, total: Floats, old_bound: Floats, alpha: Floats, bound: Floats | float = 1.0
) -> Floats:
    """The share of the theorem above; 0 where ρ ≥ α. Arrays broadcast.

    >>> exact_share(np.array([0, 100, 1000]), np.array([0, 1, 15]), np.array(0.01), np.array(0.02))
    array([0.01010101, 0.73199903, 1.        ])
    """
    n, l, r, limit = np.broadcast_arrays(  # noqa: E741
        np.asarray(rows, np.float64),
        np.asarray(total) / bound,
        np.asarray(old_bound) / bound,
        np.asarray(alpha) / bound,
    )
    slack = np.maximum(limit - r, 0.0)
    term = slack * (n + 1) / (l + 1)
    share = term.copy()
    active = (share < 1) & (term > 0)
    for k in range(1, SERIES_TERMS):
        if not active.any():
            break
        term = np.where(active, term * r * (n + k + 1) / (l + k + 1), 0.0)
        share = share + term
        active &= (share < 1) & (term > SERIES_PRECISION * share)
    return np.asarray(np.minimum(share, 1.0))
