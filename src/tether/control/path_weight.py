"""The test weight of a path: the largest weight among draws of the policies along it.

The next action is drawn by the policy that is served, so draws of that very policy say how much it
may weigh. Draws of the optimized policy, far away from it, would weigh more than the next action
ever does, and draws of the safe policy less. So beta is chosen among the betas of the path at which
proposals were drawn, its *levels*, and the test weight at a level is the largest among the draws of
its own policy and of those below it. Betas without draws of their own cannot be chosen: a path may
take actions between two levels that neither of them takes.

What is proven. Let w_k be the weight of an action at level k, D the log, and c_k(D) the largest
test weight with which level k passes on D. A weight of the next action up to c_k(D) keeps the
condition, whatever the test weight was. Let t_k(D) be the probability under the policy of level k
that w_k is above c_k(D). Every level up to the chosen one, k̂, has passed, so none of its own m
draws has a weight above c_k(D). Then, for any number of levels,

    E[t_k̂(D) | D] ≤ 1/(m + 1).

Proof. Let N be the last level such that at all levels up to N no own draw has a weight above c_k.
Then k̂ ≤ N, and t_k̂ ≤ max_{k ≤ N} t_k. For the maximum to exceed x, the first level with t_k > x
must be among those up to N; so none of its m draws, which are independent of D, is among the share
of more than x that weighs too much: a probability of at most (1 − x)^m. The integral of this over
x in [0, 1] is 1/(m + 1). Further draws, of other levels as well, only make k̂ smaller.

What it means for the promise. The next action is *unforeseen* if it weighs more than c_k̂(D). With
S the n rows and the next action, k_i the level chosen without point i, and any level κ(S) that
satisfies Σ_S (l_i − α)·w_i(κ) ≤ 0, the risk is α plus the mean over i of (l_i − α)·w_i(k_i), which
is at most the mean of (l_i − α)·(w_i(k_i) − w_i(κ)). A point that is foreseen at k_i satisfies the
condition on S at k_i, so that any of these k_i can be κ. For points that are not foreseen a term
is at most (B − α)·w_i(k_i) + α·(w_i(κ) − w_i(k_i))₊, and the mean of the first summand is
(B − α)·P(unforeseen). So the expected loss is at most

    α + (B − α)/(m + 1) + the stability term,

which is what a promise states, where unforeseen points enter the stability term by what they weigh
at κ alone, and where on some logs no level passes, the term for these logs. The second summand is a
worst case. A policy that takes an action of loss B with probability 1/(m + 1), which nobody took
before, comes within a factor of e of it.

Two things are assumed of the contexts of the draws: they come from the same distribution as those
of the log, and are independent of the log and, at each level, of each other. So the draws of a
level need a row of contexts each: more draws in the same rows would not be worth more.

Contexts of the log itself are not independent of it. Let the draws of each level be made in m rows
of the log that are picked at random, without replacement, and let h be the largest (l_j − α)·w_j at
the chosen level among the rows with a loss above α. Then, for every t > 1, the next action weighs
more than c_k̂(D) + (tα + h)/(B − α) with probability at most t/((t − 1)·m), and the expected loss is
at most

    α + (B − α)/m · t/(t − 1) + (tα + E[h])/(n + 1) + the stability term.

The proof is on the page "The guarantee". This is stated, at the best t, where a draw was made in a
context of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.control.proposals import Proposals
from tether.control.test_weight import Candidates

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem


@dataclass(frozen=True)
class PathWeight:
    """The largest weight among the draws of policies along a path, at each of its levels."""

    log_betas: Floats
    """The levels: the betas of the path with draws of their own, and +inf if there are any."""
    log_weights: Floats
    """One for each level."""
    fewest_draws: int
    """How many draws of its own policy the level with the fewest has."""
    in_log_contexts: bool = False
    """Whether any draw was made in a context of the log, or may have been."""
    label: ClassVar[str] = "empirical"
    constant: ClassVar[None] = None
    grows: ClassVar[bool] = False

    def candidates(self, problem: Problem) -> Candidates:
        """None: the weights are in the table."""
        return Candidates(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64))

    def log_weight(self, problem: Problem, log_beta: float) -> float:
        """The weight at the last level up to a beta; that of the first one below all of them."""
        place = int(np.searchsorted(self.log_betas, log_beta, side="right")) - 1
        return float(self.log_weights[max(place, 0)])

    def unforeseen_loss(self, problem: Problem, constraint: Constraint, log_beta: float) -> float:
        """What next actions that weigh more than the draws foresee may add to the expected loss."""
        alpha, worst = constraint.alpha, constraint.bound - constraint.alpha
        if not self.in_log_contexts:
            return worst / (self.fewest_draws + 1)
        draws, points = min(self.fewest_draws, len(problem.log)), len(problem.log) + 1
        amounts = constraint.signed(problem.log.loss[constraint.name])
        harmful = amounts > 0
        log_amounts = np.log(amounts[harmful]) + problem.log_weights(log_beta)[0][harmful]
        heaviest = np.exp(log_amounts.max(initial=-np.inf))
        t = 1 + np.sqrt(worst * points / (draws * alpha))  # the sum is smallest there
        added = worst / draws * t / (t - 1) + (t * alpha + heaviest) / points
        return float(min(worst, added))


def largest_weights(proposals: Proposals, log_context: NDArray[Any] | None = None) -> PathWeight:
    """The test weight that proposals along a path give; with the contexts of the log, if any."""
    path = proposals.policy_path
    assert path is not None
    assert path.drawn_at is not None
    log_betas, levels = path.every_log_beta, path.drawn_at
    columns = np.flatnonzero(np.isin(log_betas, levels))
    if not len(columns):
        raise ValueError(
            f"drawn_at of the proposals has none of the log betas of the path, of which one is "
            f"chosen: draw from the policies that may be served, got {_named(levels)}"
        )
    log_mix = proposals.log_safe if proposals.log_mix is None else proposals.log_mix
    possible = log_mix > -np.inf
    table = np.column_stack((path.log_density, proposals.log_optimized))
    if (outside := ~possible & (table > -np.inf).any(axis=1)).any():
        raise ValueError(
            f"draw {int(np.argmax(outside))} is an action that the policies which produced the log "
            f"never take, and the tethered policy does: its weight is infinite. The safe policy "
            f"must be able to take every action of the optimized one (absolute continuity)"
        )
    log_weight = np.full(table.shape, -np.inf)
    log_weight[possible] = table[possible] - log_mix[possible, None]
    weights = [float(log_weight[levels <= log_betas[k], k].max()) for k in columns]
    fewest = min(int((levels == log_betas[k]).sum()) for k in columns)
    shared = log_context is not None and (
        proposals.context is None or bool(np.isin(proposals.context, log_context).any())
    )
    return PathWeight(log_betas[columns], np.array(weights), fewest, shared)


def _named(levels: Floats) -> str:
    """Some of the log betas that draws come from."""
    return ", ".join(f"{level:g}" for level in np.unique(levels)[:5])
