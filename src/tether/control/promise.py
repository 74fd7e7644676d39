"""The promise of a calibration by alpha: what the expected loss of the next action is at most.

Serving the calibrated beta keeps the expected loss, over logs and the next action, within

    α  +  max(α, B − α)·ε  +  E[(m − α)₊]  +  what is unforeseen.

The first term is what was asked for. The second is the price of choosing beta on the log: ε is the
relative replace-one stability of beta (below). The third is the price of logs on which no beta
passes: the safe policy is then served, on exactly the logs that look bad, and m is its mean loss
over the rows and the next action (`tether._core.promises`). A promise is stated only where a beta
passes, so the term is what these logs have to carry. It is negligible where the safe policy is
clearly better than alpha.

The fourth term is there where the largest weight among draws stands for that of the next action.
The weight grows with the ratio ρ of optimized to safe probability, so it is too small where ρ is
above a limit that the log and beta set. Of all policies between the two the optimized one has the
largest ratios, and beta has passed, so none of its m draws is above the limit, which has
probability (1 − t)^m where a share t of its actions is. So the next action is unforeseen with
probability p ≤ ∫ (1 − t)^m dt = 1/(m + 1), and may add (B − α)·p. The average is over the draws, so
the term is in every promise.

What the condition has to spare pays for a part of it. The test point counts with the loss B, so
where point i of the n + 1 is foreseen, the sum of (l − α)·w over all of them is at most
−(B − l_i)·w_i, and so at most the average of these over the foreseen points. Their mean is B − R
less at most B·p, where R is the expected loss. Hence R − α ≤ (B − α)·p − (B − R − B·p)/(n + 1), or

    R ≤ α + (B − α)·(p − (1 − p)/n) + B·p/n

beside the other terms: nothing to speak of where there are as many draws as rows.

With contexts, let a share p_x of the rows be in context x, which has m_x draws, and t_x of the
actions there be above the limit. No draw is above it with probability
Π (1 − t_x)^m_x ≤ (1 − Σ p_x·t_x)^M, where M is the smallest m_x/p_x: M takes the place of m.

With several past policies (`log_mix`) a weight is not a function of ρ, and a clip may take what
weighs too much more often than the optimized policy does: up to 1/ψ times as often, and up to β/ψ
times as often as the safe policy, with ψ the normalizing constant. Draws of either policy count,
the term is that many times larger.

Along a path, beta is chosen among the levels with draws of their own, and the test weight at a
level is the largest among the draws of its policy and of those below it. Let c_k be the largest
test weight with which level k passes, and t_k the probability under the policy of level k that a
weight is above c_k. Every level up to the chosen one has passed, so none of its own m draws weighs
more than c_k. Let N be the last level up to which that is so. For max_{k ≤ N} t_k to exceed x, none
of the m draws of the first level with t_k > x may be among the share of more than x that weighs too
much: again a probability of at most (1 − x)^m, and 1/(m + 1) on average. That needs draws in
contexts that are independent of the log. If they were made in m rows of the log, picked at random,
then, with h the largest (l_j − α)·w_j at the chosen level, for every t > 1 the expected loss is at
most α + (B − α)/m·t/(t − 1) + (t·α + E[h])/(n + 1) beside the stability term; the best t is used.

Stability. With β̂₋ᵢ the beta without row i, the row's weight is multiplied by a factor
r_i = w_i(β̂₋ᵢ)/w_i(β̂), and row i stands for the next action, which beta could not depend on. The
calibrated sums of the condition then change by at most max(α, B − α)·Σ w_i·|r_i − 1|, so that the
promise needs

    ε̂ = Σ_i share_i·|r_i − 1|.

Without row i, the condition loses the term (l_i − α)·w_i(β). Only grid points where that can change
the verdict are computed anew: a few around β̂.

The change of each row's own weight is what is measured. Without contexts a weight of clip lacks the
normalizing constant ψ, which cancels in the condition but changes with beta. There the quotient
ψ(β̂)/ψ(β̂₋ᵢ) is estimated from the m draws (or rows). It lies between 1 and the quotient of betas, in
which the share of what clip cuts decides; two standard errors of that share are at most 1/√m, so
e^(s/√m) − 1 is added for a step of s in log beta. The change never exceeds e^(K·s) − 1, with K the
smoothness of the family.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.promises import SafeMean
from tether._core.rows import Block, Pass
from tether.control.calibration import PromiseTerms
from tether.control.engine import (
    LARGEST_LOG,
    LAST,
    ROUNDING,
    SAME_SCORE,
    Constraint,
    Measured,
    Problem,
    Search,
    log_of,
    log_sum,
)
from tether.control.kernels import PathKernel


def make_terms(
    problem: Problem,
    constraint: Constraint,
    log_beta: float,
    measured: Measured,
    instability: float,
) -> PromiseTerms:
    """The promise of one constraint at the beta that was found."""
    alpha, bound = constraint.alpha, constraint.bound
    return PromiseTerms(
        alpha,
        stability=max(alpha, bound - alpha) * instability,
        safe_excess=SafeMean(*measured.safe_means[constraint.name]).excess_where_passing(alpha),
        unforeseen=_unforeseen(problem, constraint, log_beta, measured),
        bound=bound,
    )


def _unforeseen(
    problem: Problem, constraint: Constraint, log_beta: float, measured: Measured
) -> float:
    """The fourth term; 0 where no weight is above the one that is assumed."""
    if problem.foreseeing is None or log_beta == -np.inf:
        return 0.0
    alpha, bound, rows = constraint.alpha, constraint.bound, measured.rows
    safe, optimized = problem.foreseeing
    if isinstance(problem.kernel, PathKernel):
        if not problem.shares_draws:
            return (bound - alpha) / (optimized + 1)
        draws, harm = min(optimized, rows), measured.harms[constraint.name]
        t = 1 + np.sqrt((bound - alpha) * (rows + 1) / (draws * alpha))  # the sum is smallest there
        added = (bound - alpha) / draws * t / (t - 1) + (t * alpha + harm) / (rows + 1)
        return float(min(bound - alpha, added))
    share = 1 / (optimized + 1)
    if problem.family.clips and problem.has_mixture:
        # ψ is the acceptance rate times the smaller of beta and 1
        beta = np.exp(np.clip(log_beta, -LARGEST_LOG, LARGEST_LOG))
        share = min(share / min(beta, 1.0), max(beta, 1.0) / (safe + 1))
        share /= max(measured.acceptance, 1e-300)  # which may be too small for a float
    return unforeseen_term(min(share, 1.0), rows, alpha, bound)


def unforeseen_term(share: float, rows: int, alpha: float, bound: float) -> float:
    """The fourth term where a share of the next actions is unforeseen."""
    added, paid = (bound - alpha) * share, (bound - alpha) * (1 - share) / rows
    return float(np.clip(added - paid + bound * share / rows, 0.0, added))


# ---- stability -----------------------------------------------------------------------------------


def without_each(found: Search, log_beta: float) -> dict[str, Pass]:
    """The pass "change", unless no row can change beta: how much weights change without their rows.

    It finds the log of a sum over rows, which over all weights together is ε̂.
    """
    problem, levels, change = found.problem, found.levels, _Change(found, log_beta)
    doubt = np.flatnonzero(np.logical_and(*found.possible()).any(axis=0))
    if not len(doubt):
        return {}
    unit, value = levels.unit[:, doubt, None], levels.value[:, doubt, None]

    def kernel(block: Block) -> dict[str, Any]:
        log_w = change.weigh(block, levels.t[doubt])
        excess = np.array([each.excess(block) for each in problem.constraints])[:, None]
        term = excess * np.exp(np.minimum(log_w - unit, LARGEST_LOG))
        fails = value - term > ROUNDING
        some = np.flatnonzero((fails != (value > 0)).any(axis=(0, 1)))
        verdicts = np.repeat(levels.fails[:, :, None], len(some), axis=2)
        verdicts[:, doubt] = fails[:, :, some]
        log_betas = np.min([found.log_betas(each, log_beta) for each in verdicts], axis=0)
        moved = log_betas != log_beta
        if not moved.any():
            return {"change": -np.inf}
        own_block = {name: column[some[moved]] for name, column in block.items()}
        return {"change": log_sum(change.of(own_block, log_betas[moved]))}

    size = max(64, min(problem.kernel.size, (1 << 22) // len(levels.t)))
    return {"change": Pass(kernel, {"change": "logsum"}, size)}


class _Change:
    """How the weight of a row changes from one beta to others, in the unit of weights at it."""

    def __init__(self, found: Search, log_beta: float) -> None:
        self.problem, self.log_beta = found.problem, log_beta
        self.kernel, self.ends = self.problem.kernel, (-LAST, LAST)
        if self.kernel.known:
            return
        self.t = found.levels.t
        self.unit = self.kernel.log_unit(self.problem, self.t)
        self.points = len(self.kernel.source(self.problem)[0])
        if self.kernel.clips:  # it changes only between these: past them ψ/β, or ψ, is the same
            self.unit[[0, -1]] = self.unit[1], self.unit[-2] + self.t[-2] - LAST  # errors cancel
            moves = np.abs(self.unit - self.unit[0]) >= SAME_SCORE
            moves_back = np.abs(self.unit + self.t - LAST - self.unit[-1])[::-1] >= SAME_SCORE
            low, high = self.t[moves.argmax() - 1], self.t[::-1][moves_back.argmax() - 1]
            own = np.clip(log_beta, low, high) if np.isinf(log_beta) else log_beta
            self.ends = float(min(low, own)), float(max(high, own))

    def weigh(self, block: Block, log_betas: Floats) -> Floats:
        """Log-weights (betas × rows)."""
        return self.kernel.weigh(block, self.kernel.at(log_betas), self.problem).log_w

    def of(self, block: Block, log_betas: Floats) -> Floats:
        """The log of how much the weight of each row changes on the way to a beta of its own."""
        here = self.weigh(block, np.array([self.log_beta]))[0]
        targets, place = np.unique(log_betas, return_inverse=True)
        there = self.weigh(block, targets)[place, np.arange(len(place))]
        if self.kernel.known:
            return _difference(here, there)
        at, own = (np.clip(each, -LAST, LAST) for each in (log_betas, self.log_beta))
        unit = self.unit[np.searchsorted(self.t, at)]
        there = there - unit + self.unit[np.searchsorted(self.t, own)]
        measured = _difference(here, there)
        if self.kernel.smoothness is None:
            return measured
        step = self.kernel.smoothness * np.abs(np.clip(at, *self.ends) - np.clip(own, *self.ends))
        slack, most = (
            here + log_of(np.expm1(np.minimum(each, LARGEST_LOG)))
            for each in (step / np.sqrt(self.points), step)
        )
        # rows may have ratios past those of all draws, where ψ no longer changes but weights do
        return np.asarray(np.maximum(measured, np.minimum(np.logaddexp(measured, slack), most)))


def _difference(here: Floats, there: Floats) -> Floats:
    """The log of |e^there − e^here|."""
    larger, smaller = np.maximum(here, there), np.minimum(here, there)
    possible = larger > -np.inf
    gap = np.where(possible, smaller, 0.0) - np.where(possible, larger, 0.0)
    return np.asarray(larger + log_of(-np.expm1(gap)))
