"""Aiming: from an optimized policy to one that expects to spend alpha and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.shown import shown
from tether._core.types import Contexts
from tether.aiming.aimed_policy import (
    AimedPolicy,
    AimedScore,
    policy_tables,
    predicted_of_candidates,
)
from tether.aiming.loss_model import LossModel, as_loss_model
from tether.aiming.multipliers import Multipliers, solve_multipliers
from tether.policies.picker import Picker, ShortlistRows
from tether.policies.policy import as_policy, is_finite
from tether.policies.ratio import Features
from tether.policies.shortlist import Shortlist

THE_LOSS = ""
"""The name of the only loss, where it has none."""


@dataclass(frozen=True)
class Aim:
    """An aimed policy, and what it is predicted to lose.

    Parameters
    ----------
    policy : Policy or Shortlist
        The aimed policy: to be calibrated and served in place of the optimized one.
    alphas : mapping of str to float
        What is tolerated of each loss; the name is empty if there is one.
    multipliers : mapping of str to float
        How hard each predicted loss tilts the policy; 0 if its loss is within alpha anyway.
    before : mapping of str to float
        The predicted losses of the optimized policy.
    predicted : mapping of str to float
        Those of the aimed one.
    reached : bool
        Whether these are at most alpha. If not, no policy near the optimized one is predicted to
        lose so little.
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
    """Tilt an optimized policy by predicted losses, so that it expects to lose alpha.

    The aimed policy is π(a | x)·exp(−λ·l̂(x, a)), normalized, with the λ ≥ 0 at which its mean
    predicted loss over the contexts is alpha: of all policies that are predicted to lose so little,
    it is the nearest to the optimized one in relative entropy. λ is 0 if the optimized policy is
    predicted to lose less.

    Nothing is promised here: the aimed policy has to be calibrated like any other, on rows that
    neither the optimized policy nor the loss model has seen. Then the guarantee holds however wrong
    the loss model is; a good one leaves more of the gain.

    Parameters
    ----------
    optimized : FinitePolicy, classifier or Shortlist
        The optimized policy, over finitely many actions or candidates. A policy over infinitely
        many actions is aimed through a shortlist: `Shortlist(safe, optimized)`.
    loss_model : callable, scikit-learn model, or mapping
        What predicts the loss: a function of (contexts, actions) that returns one per row, or a
        fitted classifier or regressor on `features`; or one for each loss, by name.
    contexts : array-like, int or ShortlistRows
        Training contexts, over which the predicted loss is averaged, or 1 where there are none. For
        a shortlist these may come with candidates.
    alpha : float or mapping of str to float
        The loss that is tolerated, or one for each loss.
    features : callable, optional
        For a scikit-learn model, a function of (contexts, actions) that returns its features; by
        default the columns of the contexts, then those of the actions.
    rng : numpy.random.Generator, optional
        Draws the candidates of a shortlist in contexts that come without.

    Returns
    -------
    Aim
        The aimed policy, its multipliers and its predicted losses.

    Raises
    ------
    TypeError
        If the policy has infinitely many actions, or an argument has the wrong type.
    ValueError
        If the names of losses differ, an alpha is not above 0, or a predicted loss is not finite.

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
    models = _named_models(loss_model, features)
    alphas = _checked_alphas(alpha, models)
    if isinstance(optimized, Shortlist):
        return _aim_shortlist(optimized, models, contexts, alphas, rng)
    policy = as_policy("optimized", optimized)
    if not is_finite(policy):
        raise TypeError(
            f"optimized has infinitely many actions: aim a shortlist of it, "
            f"tether.Shortlist(safe, optimized); got {shown(optimized)}"
        )
    table, predicted = policy_tables(policy, models, contexts)
    solved = solve_multipliers(table, predicted, np.array(list(alphas.values())))
    multipliers = dict(zip(models, solved.values.tolist(), strict=True))
    return _result(AimedPolicy(policy, models, multipliers), alphas, solved)


def _aim_shortlist(
    shortlist: Shortlist,
    models: dict[str, LossModel],
    contexts: Any,
    alphas: dict[str, float],
    rng: np.random.Generator | None,
) -> Aim:
    rows = contexts
    if not isinstance(rows, ShortlistRows):
        if rng is None:
            raise TypeError("rng is required: the candidates of the shortlist have to be drawn")
        rows = shortlist.draw(contexts, validate.generator("rng", rng))
    picker = shortlist.required_picker
    predicted = predicted_of_candidates(models, rows)
    solved = solve_multipliers(
        picker.log_prob_all(rows), predicted, np.array(list(alphas.values()))
    )
    multipliers = dict(zip(models, solved.values.tolist(), strict=True))
    return _result(aimed_shortlist(shortlist, models, multipliers), alphas, solved)


def aimed_shortlist(
    shortlist: Shortlist, models: Mapping[str, LossModel], multipliers: Mapping[str, float]
) -> Shortlist:
    """A shortlist whose picker is tilted by predicted losses."""
    score = AimedScore(shortlist.required_picker, models, multipliers)
    return shortlist.with_optimized(Picker(score, shortlist.size))


def _result(policy: Any, alphas: dict[str, float], solved: Multipliers) -> Aim:
    def by_name(values: Any) -> dict[str, float]:
        return dict(zip(alphas, values.tolist(), strict=True))

    return Aim(
        policy,
        alphas,
        by_name(solved.values),
        by_name(solved.before),
        by_name(solved.after),
        solved.reached,
    )


def _named_models(loss_model: Any, features: Features | None) -> dict[str, LossModel]:
    if not isinstance(loss_model, Mapping):
        return {THE_LOSS: as_loss_model("loss_model", loss_model, features)}
    if not loss_model:
        raise ValueError("loss_model must have at least one loss, got {}")
    return {
        name: as_loss_model(f"loss_model[{name!r}]", each, features)
        for name, each in loss_model.items()
    }


def _checked_alphas(alpha: Any, models: Mapping[str, LossModel]) -> dict[str, float]:
    given = alpha if isinstance(alpha, Mapping) else {THE_LOSS: alpha}
    if set(given) != set(models):
        raise ValueError(
            f"alpha and loss_model must have the same losses, got {sorted(given)} and "
            f"{sorted(models)}"
        )
    return {name: validate.number("alpha", given[name], above=0, below=np.inf) for name in models}
