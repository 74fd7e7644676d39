"""The promise: what the expected loss of the next action is at most.

Serving the calibrated beta keeps the expected loss, over logs and the next action, within

    α  +  max(α, B − α)·ε  +  E[(m − α)₊].

The first term is what was asked for. The second is the price of choosing beta on the log: ε is the
relative replace-one stability of beta (`tether.control.stability`). The third is the price of logs
on which no beta passes: the safe policy is then served, on exactly the logs that look bad, and m is
its mean loss over the rows and the next action (`tether._core.safe_excess`). A promise is stated
only where a beta passes, so the term is what these logs have to carry. It is negligible where the
safe policy is clearly better than alpha.

There is a fourth term where the largest weight among draws stands for that of the next action:
along a path (`tether.control.path_weight`), for mix and for clip. The weight grows with the ratio ρ
of optimized to safe probability, so it is too small where ρ is above a limit that the log and beta
set. Of all policies between the two the optimized one has the largest ratios, and beta has passed,
so none of its m draws is above the limit, which has probability (1 − t)^m where a share t of its
actions is. As along a path, the next action is unforeseen with probability p ≤ 1/(m + 1), and may
add (B − α)·p. The average is over the draws, so the term is in every promise: a clip that ends
below the ratio of a draw weighs nothing too lightly, but with other draws it would not have ended
there, and a promise that leaves the term out exactly then is too small on average.

What the condition has to spare pays for a part of it. The test point counts with the loss B, so
where point i of the n + 1 is foreseen, the sum of (l − α)·w over all of them is at most
−(B − l_i)·w_i, and so at most the average of these over the foreseen points. Their mean is B − R
less at most B·p, where R is the expected loss. Hence R − α ≤ (B − α)·p − (B − R − B·p)/(n + 1), or

    R ≤ α + (B − α)·(p − (1 − p)/n) + B·p/n

beside the other terms: nothing to speak of where there are as many draws as rows.

With contexts, let a share p_x of the rows be in context x, which has m_x draws, and t_x of the
actions there be above the limit. No draw is above it with probability
Π (1 − t_x)^m_x ≤ (1 − Σ p_x·t_x)^M, where M is the smallest m_x/p_x: M takes the place of m. Where
every row has draws of its own, M is at least the number of rows.

With several past policies (`log_mix`) a weight is no function of ρ, and a clip may take what weighs
too much more often than the optimized policy does: up to 1/ψ times as often, and up to β/ψ times as
often as the safe policy, with ψ the normalizing constant. Draws of either policy count, the term is
that many times larger.

With a confidence the promise is another one: α, with that probability over logs
(`tether.control.high_probability`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether._core.safe_excess import SafeMean, safe_mean
from tether.control.constraint import Constraint
from tether.control.log import Log
from tether.control.path_weight import PathWeight
from tether.control.problem import Problem

if TYPE_CHECKING:
    from tether.control.parts.problem import ProblemInParts

LARGEST_EXPONENT = 700.0
"""Logs up to this have an exponential that is a float."""
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
    bound : float
        The largest possible loss, which the total never exceeds.
    unforeseen : float, default 0.0
        What actions that no draw foresees may add.

    Examples
    --------
    >>> round(PromiseTerms(0.1, stability=0.02, safe_excess=0.003, bound=1.0).total, 6)
    0.123
    """

    alpha: float
    stability: float
    safe_excess: float
    bound: float
    unforeseen: float = 0.0

    @property
    def total(self) -> float:
        """The stated upper bound on the expected loss."""
        return min(self.bound, self.alpha + self.stability + self.safe_excess + self.unforeseen)

    @property
    def added(self) -> float:
        """What is added to alpha."""
        return self.stability + self.safe_excess + self.unforeseen


@dataclass(frozen=True)
class NearestPromise:
    """The terms of the smallest promise that was found where none is as small as asked for.

    Parameters
    ----------
    log_beta : float
        Log of the beta whose promises these are. It does not pass.
    terms : mapping of str to PromiseTerms
        What each promise is made of.
    """

    log_beta: float
    terms: Mapping[str, PromiseTerms]


def make_promise(
    constraint: Constraint, instability: float, safe: SafeMean, unforeseen: float = 0.0
) -> PromiseTerms:
    """The promise of one constraint, from ε, the safe policy's mean loss, and the fourth term."""
    alpha, bound = constraint.alpha, constraint.bound
    excess = safe.excess_where_passing(alpha)
    stability = max(alpha, bound - alpha) * instability
    return PromiseTerms(alpha, stability, excess, bound, unforeseen)


def unforeseen_loss(
    problem: Problem | ProblemInParts,
    constraint: Constraint,
    log_beta: float,
    acceptance: Callable[[], float],
) -> float:
    """The fourth term of a promise; 0 where no weight is above the one that is assumed.

    `acceptance` returns the share of proposals that are accepted at this beta.
    """
    if isinstance(problem, Problem) and isinstance(problem.test_weight, PathWeight):
        return problem.test_weight.unforeseen_loss(problem, constraint, log_beta)
    draws = _draws(problem)
    if draws is None or log_beta == -np.inf:
        return 0.0
    share = 1 / (draws[1] + 1)
    if problem.family.clips and _has_mixture(problem):
        # ψ is the acceptance rate times the smaller of beta and 1
        beta, rate = np.exp(np.clip(log_beta, -LARGEST_EXPONENT, LARGEST_EXPONENT)), acceptance()
        share = min(share / min(beta, 1.0), max(beta, 1.0) / (draws[0] + 1)) / rate
    rows = len(problem.log)
    return unforeseen_term(min(share, 1.0), rows, constraint.alpha, constraint.bound)


def unforeseen_term(share: float, rows: int, alpha: float, bound: float) -> float:
    """The fourth term where a share of the next actions is unforeseen."""
    added, paid = (bound - alpha) * share, (bound - alpha) * (1 - share) / rows
    return float(np.clip(added - paid + bound * share / rows, 0.0, added))


def foreseeing_draws(problem: Problem | ProblemInParts) -> int | None:
    """The m of the fourth term, where it is the same at every beta; None elsewhere."""
    if isinstance(problem.test_weight, PathWeight):
        return problem.test_weight.fewest_draws
    draws = _draws(problem)
    if draws is None or (problem.family.clips and _has_mixture(problem)):
        return None
    return int(draws[1])


def _has_mixture(problem: Problem | ProblemInParts) -> bool:
    """Whether several policies produced the rows."""
    log = problem.log
    return log.log_mix is not None if isinstance(log, Log) else log.has_mixture


def _draws(problem: Problem | ProblemInParts) -> tuple[float, float] | None:
    """The m of the fourth term for the safe and the optimized policy; None where there is none."""
    if problem.test_weight.label != "empirical":
        return None
    if not isinstance(problem, Problem):
        if problem.proposals is not None:
            survey = problem.proposals.survey
            return float(survey.safe_rows), float(survey.rows - survey.safe_rows)
        stored = problem.log.survey
        if stored.draws is None or stored.shared is None:  # tables
            return None
        per_draw = stored.rows / stored.shared.largest
        return stored.draws[0] * per_draw, stored.draws[1] * per_draw
    draws = problem.draws
    if draws.from_safe is None:  # tables
        return None
    rows = np.bincount(draws.row, minlength=len(draws.start))
    counts = (
        np.add.reduceat(drew, draws.start, dtype=np.int64)[rows > 0]
        for drew in (draws.from_safe, ~draws.from_safe)
    )
    safe, optimized = (float((count / rows[rows > 0]).min()) for count in counts)
    return safe * len(draws.row), optimized * len(draws.row)


def safe_mean_of(problem: Problem, constraint: Constraint) -> SafeMean:
    """The mean loss of the safe policy over the log, with its standard error."""
    loss = problem.log.loss[constraint.name]
    if problem.log.log_mix is None:
        return safe_mean(loss, constraint.bound)
    log_weights = problem.log.log_safe - problem.log.log_mix
    return safe_mean(loss, constraint.bound, log_weights=log_weights)
