"""Aiming: tilting an optimized policy until its predicted loss is at most alpha.

A policy π is tilted to π_λ(a | x) ∝ π(a | x)·exp(−Σ_j λ_j·l̂_j(x, a)). Of all policies whose mean
predicted losses over some contexts are at most alpha_j, the nearest one to π in mean relative
entropy, KL(· ‖ π), is π_λ with the λ ≥ 0 that minimizes the convex function

    D(λ) = mean_x log Σ_a π(a | x)·exp(−Σ_j λ_j·l̂_j(x, a)) + Σ_j λ_j·alpha_j

whose gradient is alpha_j minus the predicted loss of π_λ. So at the minimum every predicted loss is
alpha_j, or below it with λ_j = 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.arrays import Contexts, Floats, shown
from tether.aiming.loss_models import LossModel, as_loss_model, candidate_losses, policy_tables
from tether.aiming.tilted_policies import AimedPolicy, AimedScore
from tether.policies.policy import as_policy, is_finite
from tether.policies.ratio import Features
from tether.policies.shortlist import Picker, Shortlist, ShortlistRows
from tether.sampling.samplers import log_softmax

THE_LOSS = ""
"""What a single loss is called where it has no name."""
MAX_TILT, REACHED_WITHIN = 50.0, 1e-3
"""The most nats by which a multiplier may tilt (λ times the range of the predicted loss), and how
far above alpha, relative to it, a predicted loss still counts as having reached it."""


def mean_losses(log_probabilities: Floats, predicted: Floats) -> Floats:
    """The mean predicted losses of a policy over its contexts."""
    chances = np.exp(log_probabilities)
    return np.asarray(np.einsum("xa,jxa->j", chances, predicted) / len(chances))


@dataclass(frozen=True)
class Aim:
    """An aimed policy, and what it is predicted to lose.

    Parameters
    ----------
    policy : Policy or Shortlist
        The aimed policy: to be calibrated and served in place of the optimized one.
    alphas, multipliers, before, predicted : mapping of str to float
        For each loss (a single one has an empty name) its alpha, how hard it tilts the policy, and
        its prediction for the optimized policy and for the aimed one.
    reached : bool
        Whether `predicted` is at most alpha; if not, no policy near the optimized one is that safe.
    """

    policy: Any
    alphas: Mapping[str, float]
    multipliers: Mapping[str, float]
    before: Mapping[str, float]
    predicted: Mapping[str, float]
    reached: bool

    def __str__(self) -> str:
        lines = []
        for name, alpha in self.alphas.items():
            loss = f"loss {name!r}" if name else "loss"
            lines.append(
                f"predicted {loss}: {self.before[name]:.4g} before, {self.predicted[name]:.4g} "
                f"aimed, alpha {alpha:.4g} (multiplier {self.multipliers[name]:.4g})"
            )
        if not self.reached:
            lines.append("no policy near the optimized one is predicted to lose so little")
        return "\n".join(lines)


def aim(
    optimized: Any,
    loss_model: Any,
    contexts: Contexts,
    alpha: float | Mapping[str, float],
    *,
    features: Features | None = None,
    rng: np.random.Generator | None = None,
) -> Aim:
    """Tilt an optimized policy by predicted losses until its predicted loss is at most alpha.

    The aimed policy is π(a | x)·exp(−λ·l̂(x, a)), normalized, with the λ ≥ 0 at which its mean
    predicted loss over the contexts is alpha, or λ = 0 if it is already less.

    Aiming promises nothing: the aimed policy has to be calibrated like any other, on rows that
    neither the optimized policy nor the loss model has seen, and the guarantee holds however wrong
    the loss model is.

    Parameters
    ----------
    optimized : FinitePolicy, classifier or Shortlist
        The optimized policy. One over infinitely many actions is aimed through a shortlist:
        `Shortlist(safe, optimized)`.
    loss_model : callable, scikit-learn model, or mapping
        What predicts the loss: a function of (contexts, actions) that returns one loss per row, or
        a fitted classifier or regressor on `features`; or one of these per loss, by name.
    contexts : array-like, int or ShortlistRows
        Training contexts, over which the predicted loss is averaged, or 1 if there are no contexts.
    alpha : float or mapping of str to float
        The loss that is tolerated, or one for each loss.
    features : callable, optional
        For a scikit-learn model, a function of (contexts, actions), as for `EstimatorLosses`.
    rng : numpy.random.Generator, optional
        Draws the candidates of a shortlist in contexts that come without them.

    Examples
    --------
    >>> import tether
    >>> optimized = tether.Categorical.from_probabilities([[0.1, 0.9], [0.2, 0.8]])
    >>> loss_model = lambda contexts, actions: 0.4 * (contexts == 1) * actions
    >>> aimed = tether.aim(optimized, loss_model, np.array([0, 1]), alpha=0.1)
    >>> print(aimed)
    predicted loss: 0.16 before, 0.1 aimed, alpha 0.1 (multiplier 3.466)
    >>> np.exp(aimed.policy.log_prob([0, 1], [1, 1])).round(3)
    array([0.9, 0.5])
    """
    given = loss_model if isinstance(loss_model, Mapping) else {THE_LOSS: loss_model}
    targets = alpha if isinstance(alpha, Mapping) else {THE_LOSS: alpha}
    if not given or set(targets) != set(given):
        raise ValueError(
            f"alpha and loss_model must name the same losses, got {sorted(targets)} and "
            f"{sorted(given)}"
        )
    models = {name: as_loss_model("loss_model", each, features) for name, each in given.items()}
    alphas = {
        name: validate.number("alpha", targets[name], above=0, below=np.inf) for name in models
    }
    base, table, predicted = _tables(optimized, models, contexts, rng)
    values = solve_multipliers(table, predicted, np.array(list(alphas.values())))
    after = mean_losses(log_softmax(table - np.tensordot(values, predicted, 1)), predicted)
    reached = all(after <= np.array(list(alphas.values())) * (1 + REACHED_WITHIN))

    def by_name(numbers: Floats) -> dict[str, float]:
        return dict(zip(models, numbers.tolist(), strict=True))

    policy = tilt(base, models, by_name(values))
    before = by_name(mean_losses(table, predicted))
    return Aim(policy, alphas, by_name(values), before, by_name(after), reached)


def tilt(base: Any, models: Mapping[str, LossModel], multipliers: Mapping[str, float]) -> Any:
    """A policy over finitely many actions, or a shortlist, tilted by predicted losses."""
    if not isinstance(base, Shortlist):
        return AimedPolicy(base, models, multipliers)
    pick = Picker(AimedScore(base.required_picker, models, multipliers), base.size)
    return Shortlist(base.safe, pick, size=base.size, temperature=base.temperature)


def _tables(
    optimized: Any,
    models: Mapping[str, LossModel],
    contexts: Any,
    rng: np.random.Generator | None,
) -> tuple[Any, Floats, Floats]:
    """What is tilted, its log-probabilities in each context, and the predicted losses."""
    if isinstance(optimized, Shortlist):
        rows = contexts
        if not isinstance(rows, ShortlistRows):
            rows = optimized.draw(contexts, validate.generator("rng", rng))
        table = optimized.required_picker.log_prob_all(rows)
        return optimized, table, candidate_losses(models, rows)
    policy = as_policy("optimized", optimized)
    if not is_finite(policy):
        raise TypeError(
            f"optimized has infinitely many actions: aim a shortlist of it, "
            f"tether.Shortlist(safe, optimized); got {shown(optimized)}"
        )
    return policy, *policy_tables(policy, models, contexts)


def solve_multipliers(log_probabilities: Floats, predicted: Floats, alphas: Floats) -> Floats:
    """The smallest tilt after which no predicted loss exceeds its alpha, one number per loss.

    `log_probabilities` has the shape (contexts, actions) and `predicted` (losses, contexts,
    actions).
    """
    if (mean_losses(log_probabilities, predicted) <= alphas).all():
        return np.zeros(len(alphas))
    from scipy import optimize, special

    possible = log_probabilities > -np.inf
    highest = np.where(possible, predicted, -np.inf).max(axis=2)
    ranges = (highest - np.where(possible, predicted, np.inf).min(axis=2)).max(axis=1)
    limits = np.divide(MAX_TILT, ranges, out=np.zeros(len(ranges)), where=ranges > 1e-12)

    def dual(units: Floats) -> tuple[float, Floats]:
        """D and its gradient, in units in which every limit is 1."""
        values = units * limits
        scores = log_probabilities - np.tensordot(values, predicted, 1)
        log_norm = special.logsumexp(scores, axis=1, keepdims=True)
        gradient = alphas - mean_losses(scores - log_norm, predicted)
        return float(log_norm.mean() + values @ alphas), gradient * limits

    start, bounds = np.full(len(alphas), 1 / MAX_TILT), [(0.0, 1.0)] * len(alphas)
    how = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10}
    for _ in range(2):  # the search may stop early
        start = optimize.minimize(dual, start, (), "L-BFGS-B", True, bounds=bounds, options=how).x
    return np.asarray(start * limits)
