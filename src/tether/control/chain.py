"""The soft chain: a promise in expectation that is proved and has no estimated term.

n rows have a loss l in [0, B] and, for candidate k of a fixed sequence (0 is the safe policy;
1, …, K go further and further), an importance weight w_k with E[w_k] = 1 and E[w_k·l] = R_k. With a
stake t and a level a, both fixed before the log is seen, let

    C_k = Π_i (1 − t·Z_ik),   Z_ik = (l_i − a)·w_ik + c·(1 − w_ik),   S_k = min(1, C_1, …, C_k)

where c ≥ 0 is the smallest number, known before the action is, that keeps every possible factor
non-negative. Candidate k is served with probability S_k − S_{k+1} (S_0 = 1, S_{K+1} = 0).

Theorem. If R_0 ≤ a = p − 1/(t·(n + 1)), the expected loss of what is served is at most p. If
R_0 > a, it is at most R_0 + (p − a)·exp(−t·n·(R_0 − a)).

Proof. Given the past, E[Z_k] = R_k − a, so E[S_k] ≤ E[C_k] = (1 − t·(R_k − a))^n =: f(R_k) where
R_k > a, and E[S_k] ≤ 1 =: f(R_k) elsewhere; f does not increase. Let M_k = max(R_0, …, R_k). S
falls in k, so the loss given the log is Σ_k (S_k − S_{k+1})·R_k ≤ Σ_k (S_k − S_{k+1})·M_k =
R_0 + Σ_{k≥1} S_k·(M_k − M_{k−1}). Where M_k > M_{k−1}, it is R_k, and E[S_k] ≤ f(M_k). So the
expected loss is at most R_0 + Σ f(M_k)·(M_k − M_{k−1}) ≤ R_0 + ∫ f(r) dr over r ≥ R_0. For R_0 ≤ a
that is at most a + 1/(t·(n + 1)) = p.  ∎

Any smaller S that does not increase in k keeps the promise: the smallest S of several losses, or
what rounding leaves. Weights with r ≤ E[w] ≤ 1 keep it with stake t/r, since then
E[Z_k] ≥ r·(R_k − a). Thresholds of a loss are the case w = 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tether._core.types import Floats

SHARPNESS = 0.4
"""The stake is in proportion to this power of the number of losses that are tolerated."""


def design(
    rows: int, promise: float, bound: float = 1.0, safe_risk: float | None = None
) -> tuple[float, float]:
    """The level a and the stake t, from the number of rows and the promise alone.

    The promise needs a safe risk of at most a; a known `safe_risk` raises a to it, if it can. A
    level of 0 or less says that there are too few rows: then the safe policy serves.
    """
    sharpness = max((rows * promise / bound) ** SHARPNESS, 2.0)
    if safe_risk is not None:
        sharpness = max(sharpness, promise / (promise - safe_risk))
    largest = rows / ((rows + 1) * (bound - promise))  # then t·(B − a) = 1
    stake = min(sharpness / ((rows + 1) * promise), largest)
    return promise - 1 / (stake * (rows + 1)), stake


def log_factor(
    loss: ArrayLike, weight: ArrayLike, limit: ArrayLike, level: float, stake: float, bound: float
) -> Floats:
    """Logs of the factors of C, one for each loss and weight (arrays that broadcast).

    `limit` is a number that no weight in the row's context can exceed, whatever the action; it may
    be infinite.
    """
    margin = bound - level
    loss, weight, limit = (np.asarray(each, np.float64) for each in (loss, weight, limit))
    if level <= 0 or stake * margin > 1 + 1e-12:
        return np.full(np.broadcast_shapes(loss.shape, weight.shape), -np.inf)
    above = np.maximum(limit - 1, 0.0)
    spare = max(1 / stake - margin, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(above * margin > spare, spare / above, margin)  # B − a − c
        factor = 1 + stake * ((bound - loss - slope) * weight + slope - margin)
        return np.asarray(np.log(np.maximum(factor, 0.0)))


def soft_chain(log_capitals: ArrayLike) -> Floats:
    """The shares S_1, …, S_K from the logs of C_1, …, C_K (along the last axis)."""
    lowest = np.minimum.accumulate(np.asarray(log_capitals, np.float64), axis=-1)
    return np.asarray(np.exp(np.minimum(lowest, 0.0)))


def position(shares: Floats, uniform: float) -> int:
    """The candidate that a uniform number in (0, 1] serves: 0 is the safe policy, k is S_k's."""
    return int(np.count_nonzero(shares >= uniform))


def risk_limit(promise: float, level: float, stake: float, rows: int, safe_risk: float) -> float:
    """What the theorem says of the expected loss, whatever the safe policy's risk is."""
    if safe_risk <= level:
        return promise
    return safe_risk + (promise - level) * math.exp(-stake * rows * (safe_risk - level))
