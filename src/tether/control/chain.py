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
what rounding leaves. So does the mean of capitals on sets of n_j rows, fixed by who acted in them,
with stakes t_j = 1/((p − a)·(n_j + 1)). Weights with r ≤ E[w] ≤ 1 keep it with stake t/r, since
then E[Z_k] ≥ r·(R_k − a). Thresholds of a loss are the case w = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core.arrays import Floats
from tether._core.rows import Block, Rows

if TYPE_CHECKING:
    from tether.control.unbiased import Weights

SHARPNESS = 0.4  # the stake grows with this power of the number of losses that are tolerated
TINY = 1e-150  # stands for 0 in a divisor
ROUNDING = 1e-9  # a smaller factor is 0: one that should be must not be rounded to a bit more
SMALLEST_SHARE = 0.05
"""Smaller shares become 0, which is always valid and costs less than a hundredth of the gain: no
draw goes further than at least one draw in twenty would."""
FINGERPRINTED = ("log_safe", "log_optimized", "log_logged")  # whose bits, too, decide the draw


def design(
    rows: int, promise: float, bound: float = 1.0, safe_risk: float | None = None
) -> tuple[float, float]:
    """The level a and the stake t, from the number of rows and the promise alone.

    A known `safe_risk` raises a to it, if it can. With a level of at most 0 there are too few rows.
    """
    sharpness = max((rows * promise / bound) ** SHARPNESS, 2.0)
    if safe_risk is not None:
        sharpness = max(sharpness, promise / (promise - safe_risk))
    largest = rows / ((rows + 1) * (bound - promise))  # then t·(B − a) = 1
    stake = min(sharpness / ((rows + 1) * promise), largest)
    return promise - 1 / (stake * (rows + 1)), stake


def factors(
    loss: ArrayLike,
    weight: ArrayLike,
    limit: ArrayLike,
    level: float,
    stake: ArrayLike,
    bound: float,
) -> Floats:
    """What rows multiply a capital by, 1 − t·Z, for arrays that broadcast.

    No weight in the row's context can exceed `limit`, which may be infinite. A level below 0, or a
    stake with which a factor could be negative, loses all.
    """
    margin = bound - level
    loss, weight, limit, stake = (
        np.asarray(each, np.float64) for each in (loss, weight, limit, stake)
    )
    allowed = (stake * margin <= 1 + 1e-12) & (level >= 0)
    stake = np.where(allowed, stake, 1 / margin)
    spare = np.maximum(1 / stake - margin, TINY)
    slope = np.minimum(spare / np.maximum(limit - 1, TINY**2), margin)  # B − a − c
    found = np.asarray((bound - loss - slope) * weight)
    found += slope - margin
    found *= stake
    found += 1.0
    found *= found > ROUNDING
    return found if allowed.all() else np.where(allowed, found, 0.0)


def soft_chain(log_capitals: ArrayLike) -> Floats:
    """The shares S_1, …, S_K from the logs of C_1, …, C_K (along the last axis)."""
    lowest = np.minimum.accumulate(np.asarray(log_capitals, np.float64), axis=-1)
    shares = np.exp(np.minimum(lowest, 0.0))
    return np.where(shares < SMALLEST_SHARE, 0.0, shares)


def position(shares: Floats, uniform: float) -> int:
    """The candidate that a uniform number in (0, 1] serves: 0 is the safe policy, k is S_k's."""
    return int(np.count_nonzero(shares >= uniform))


@dataclass(frozen=True)
class Chain:
    """What the soft chain found: fixed candidates, and the probability of going as far as each.

    With one draw, `uniform` has decided which candidate is served. With `spread`, every action has
    a draw of its own: candidate k with probability shares[k] − shares[k + 1], and the safe policy
    with 1 − shares[0].
    """

    rows: int  #: The number of rows, which was fixed beforehand.
    promises: dict[str, float]  #: What is promised of each loss.
    levels: dict[str, float]  #: For each loss the level a, a limit on the safe policy's risk.
    stakes: dict[str, float]  #: The stake t of each loss.
    log_betas: Floats  #: The candidates, as far as their S is above 0.
    shares: Floats  #: The S of each of them.
    uniform: float  #: The draw in (0, 1].
    spread: bool = False  #: Whether every action has a draw of its own.
    #: How many calibrations on these rows the one that is served may be chosen from.
    looks: int = 1

    @property
    def log_beta(self) -> float:
        """Log of the beta that is served; with `spread`, of the median of those that are."""
        drawn = min(0.5, float(self.shares[0])) if self.spread else self.uniform
        served = position(self.shares, drawn) if drawn > 0 else 0
        return float(self.log_betas[served - 1]) if served else -math.inf

    @property
    def probabilities(self) -> Floats:
        """The probabilities of the safe policy and of each candidate, before the draw."""
        return -np.diff(np.concatenate(([1.0], self.shares, [0.0])))

    def risk_limit(self, loss: str, safe_risk: float) -> float:
        """What the theorem says about the expected loss if the safe policy's risk is `safe_risk`.

        E[(R − a)₊] ≤ p − a for every look; for the boldest of several it is at most their sum.
        """
        level, promise = self.levels[loss], self.promises[loss]
        over = max(safe_risk - level, 0.0)
        decay = math.exp(-self.stakes[loss] * self.rows * over)
        return promise + over + (self.looks * decay - 1) * (promise - level)


def find_chain(
    weights: Weights,
    uniform: float,
    *,
    rows: int,
    safe_risk: Mapping[str, float] | None = None,
    spread: bool = False,
    looks: int = 1,
) -> tuple[Chain, dict[str, float]]:
    """The soft chain of a problem whose alphas are promises, and each loss's own log beta.

    The probability that weights are wrong, times the bound, is taken off every promise.
    """
    constraints, levels, stakes, logs = weights.problem.constraints, {}, {}, []
    for each in constraints:
        held, known = each.alpha - weights.error * each.bound, (safe_risk or {}).get(each.name)
        level, stake = design(rows, held, each.bound, known)
        levels[each.name], stakes[each.name] = level, stake
        with np.errstate(over="ignore"):
            scaled = stake * each.ratio_error * np.exp(weights.log_high - weights.log_low)
        logs.append(weights.log_capitals(each, level, scaled[:, None])[:, 0])
    shares, log_betas = soft_chain(logs), weights.log_betas
    own = {
        each.name: float(log_betas[position(alone, uniform)])
        for each, alone in zip(constraints, shares, strict=True)
    }
    every = shares.min(axis=0)
    kept = max(int(np.count_nonzero(every)), 1)
    chain = Chain(
        rows=rows,
        promises={each.name: each.alpha for each in constraints},
        levels=levels,
        stakes=stakes,
        log_betas=log_betas[1 : kept + 1],
        shares=every[:kept],
        uniform=uniform,
        spread=spread,
        looks=looks,
    )
    return chain, own


def draw_uniform(rows: Rows, seed: int) -> float:
    """A number in (0, 1], from a seed and a fingerprint of the rows in any order.

    The theorem averages over logs and over the draw, so logs must not share it; and the same log
    must lead to the same beta.
    """
    names = sorted(n for n in rows.names if n.startswith("loss/") or n in FINGERPRINTED)

    def kernel(block: Block) -> dict[str, Any]:
        mixed = np.zeros(len(block[names[0]]), np.uint64)
        for name in names:
            mixed = _mix_bits(mixed ^ np.ascontiguousarray(block[name], np.float64).view(np.uint64))
        return {"sum": mixed.sum(keepdims=True, dtype=np.uint64)}

    fingerprint = int(rows.reduce(kernel, {"sum": "sum"})["sum"][0])
    return 1.0 - float(np.random.default_rng([seed, fingerprint]).random())


def _mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64, after a step."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
