"""The promise of a calibration by alpha: what the expected loss of the next action is at most.

Serving the calibrated beta keeps the expected loss, over logs and the next action, within

    α  +  max(α, B − α)·ε  +  E[(m − α)₊]  +  what is unforeseen.

The first term is what was asked for. The second is the price of choosing beta on the log: ε is the
relative replace-one stability of beta (`tether.control.stability`). The third is the price of logs
on which no beta passes: the safe policy is then served, on exactly the logs that look bad, and m is
its mean loss over the rows and the next action (`tether._core.promises`). A promise is stated
only where a beta passes, so the term is what these logs have to carry. It is negligible where the
safe policy is clearly better than alpha.

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

With several past policies (`log_mix`) a weight is no function of ρ, and a clip may take what weighs
too much more often than the optimized policy does: up to 1/ψ times as often, and up to β/ψ times as
often as the safe policy, with ψ the normalizing constant. Draws of either policy count, the term is
that many times larger.

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._core.promises import SafeMean
from tether.control.engine import LARGEST_LOG, Constraint, Problem
from tether.control.kernels import PathKernel
from tether.control.measure import Measured

ASSUMPTIONS = (
    "the safe policy took the logged actions (or the policies that the log names); the optimized "
    "policy was not trained on these rows; new contexts are like the logged ones; every loss is "
    "between 0 and its bound; each log-probability is that of the policy as it samples"
)


@dataclass(frozen=True)
class PromiseTerms:
    """The terms of a promise on one expected loss.

    Parameters
    ----------
    alpha : float
        What was tolerated.
    stability : float
        What choosing beta on the log may add: max(α, B − α)·ε.
    safe_excess : float
        What logs on which no beta passes may add: an estimate of E[(m − α)₊].
    unforeseen : float
        What actions that no draw foresees may add.
    bound : float
        The largest possible loss, which the total never exceeds.

    Examples
    --------
    >>> terms = PromiseTerms(0.1, stability=0.02, safe_excess=0.003, unforeseen=0.0, bound=1.0)
    >>> round(terms.total, 6)
    0.123
    """

    alpha: float
    stability: float
    safe_excess: float
    unforeseen: float
    bound: float

    @property
    def total(self) -> float:
        """The stated upper bound on the expected loss."""
        return min(self.bound, self.alpha + self.stability + self.safe_excess + self.unforeseen)


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
        share = min(share / min(beta, 1.0), max(beta, 1.0) / (safe + 1)) / measured.acceptance
    return unforeseen_term(min(share, 1.0), rows, alpha, bound)


def unforeseen_term(share: float, rows: int, alpha: float, bound: float) -> float:
    """The fourth term where a share of the next actions is unforeseen."""
    added, paid = (bound - alpha) * share, (bound - alpha) * (1 - share) / rows
    return float(np.clip(added - paid + bound * share / rows, 0.0, added))


def in_words(terms: PromiseTerms) -> str:
    """The terms of a promise, with what each is for."""
    text = f"{terms.alpha:.4g} (alpha)"
    for value, why in (
        (terms.stability, "stability: beta was chosen on this log"),
        (terms.safe_excess, "on some other logs no beta would pass"),
        (terms.unforeseen, "actions that no draw foresees"),
    ):
        if value > 1e-6 * terms.alpha:
            text += f" + {value:.2g} ({why})"
    return text
