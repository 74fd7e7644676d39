"""A loss model fitted on training rows: as simple as the rows ask for, and calibrated.

Three kinds of models compete on rows that they have not seen: a constant, logistic regression on
`PairFeatures` with the ridge penalty that predicts best, and gradient boosted trees. A more complex
kind is taken only if its held-out likelihood is better than that of every simpler one by two nats
and by its own standard error, so few rows give a constant and a policy that is not tilted.

The fitted model is the average log odds of the models of all folds, with a shift and a slope that
fit best on held-out rows. A loss between 0 and its bound counts as that share of a loss at the
bound (fractional logistic regression).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.contexts import as_contexts, length
from tether._core.plain_arrays import plain_column
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Floats
from tether.aiming.held_out_fits import (
    LARGEST_LOG_ODDS,
    LOSS_FOLDS,
    HeldOutFits,
    kinds_of_models,
    likelihood_of,
    log_odds_of,
    logit,
    spread_folds,
)
from tether.aiming.pair_features import PairFeatures
from tether.policies.policy import as_policy

LEAST_GAIN = 2.0
"""How many nats of held-out likelihood a more complex kind must gain: two numbers, shift and slope,
are fitted to these rows."""


@dataclass(frozen=True)
class FittedLoss:
    """A fitted loss model: call it with contexts and actions.

    Parameters
    ----------
    kind : str
        "constant", "linear" or "trees".
    bound : float
        The largest possible loss.
    improvement : float
        By how many nats per row the held-out likelihood is better than that of a constant.
    models : tuple
        The models of all folds; none for a constant.
    features : PairFeatures
        What they see.
    shift : float
        The shift of the log odds; the log odds themselves for a constant.
    slope : float
        The slope of the log odds.
    """

    kind: str
    bound: float
    improvement: float
    models: tuple[Any, ...]
    features: PairFeatures
    shift: float
    slope: float

    def __call__(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """Predict the loss of each action in its context.

        Parameters
        ----------
        contexts : array-like, data frame or int
            One row per action, or their number.
        actions : ndarray
            The actions.

        Returns
        -------
        ndarray of float
            One predicted loss per action, between 0 and the bound.
        """
        if not self.models:
            return self._loss(np.full(len(actions), self.shift))
        return self._predict(self.features(contexts, np.asarray(actions)))

    def loss_table(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """Predict the loss of every action in every context.

        Parameters
        ----------
        contexts : array-like, data frame or int
            Contexts, or their number where there are none.
        actions : ndarray
            The actions.

        Returns
        -------
        ndarray of shape (contexts, actions)
            The predicted losses.
        """
        shape = length(contexts), len(actions)
        if not self.models:
            return self._loss(np.full(shape, self.shift))
        return self._predict(self.features.table(contexts, np.asarray(actions))).reshape(shape)

    def _predict(self, matrix: Floats) -> Floats:
        mean = np.mean([log_odds_of(model, matrix) for model in self.models], axis=0)
        return self._loss(self.shift + self.slope * mean)

    def _loss(self, log_odds: Floats) -> Floats:
        inside = np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
        return np.asarray(self.bound / (1 + np.exp(-inside)))


def fit_loss(
    contexts: Any,
    actions: ArrayLike,
    losses: ArrayLike,
    *,
    rng: np.random.Generator,
    weights: ArrayLike | None = None,
    bound: float = 1.0,
    policies: Sequence[Any] = (),
) -> FittedLoss:
    """Fit a loss model on training rows.

    Parameters
    ----------
    contexts : array-like, data frame, int or None
        The contexts of the rows, or None where there are none. Columns hold numbers or words, such
        as those of a frame; the most frequent words become indicators.
    actions : array-like
        The actions that were taken: numbers, or labels.
    losses : array-like of float
        Their losses, from 0 to `bound`.
    rng : numpy.random.Generator
        Assigns rows to folds.
    weights : array-like of float, optional
        How much each row counts: importance weights of the optimized policy, if the model should
        be good where that policy acts.
    bound : float, default 1.0
        The largest possible loss.
    policies : sequence of Policy, default ()
        Policies whose log-probabilities are features of the model: the safe policy, which rarely
        does what is harmful, and the optimized one. Classifiers will do.

    Returns
    -------
    FittedLoss
        The model.

    Raises
    ------
    TypeError
        If contexts or actions are neither numbers nor labels.
    ValueError
        If lengths differ, a loss is outside [0, bound], or a weight is negative or not finite.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, a = rng.normal(size=500), rng.integers(2, size=500)
    >>> harmed = rng.random(500) < np.where(a == 1, 1 / (1 + np.exp(-3 * x)), 0.05)
    >>> model = fit_loss(x, a, harmed, rng=rng)
    >>> model.kind, model(np.array([-2.0, 2.0]), np.array([1, 1])).round(1)
    ('linear', array([0., 1.]))
    """
    columns = {"contexts": contexts, "actions": actions, "losses": losses, "weights": weights}
    check_row_indexes(columns)
    taken = plain_column("actions", actions)
    rows = as_contexts(contexts, taken)
    limit = validate.number("bound", bound, above=0, below=np.inf)
    share = validate.floats("losses", losses) / limit
    validate.same_length("losses", share, "actions", len(taken))
    if not (share.min() >= 0 and share.max() <= 1):
        validate.reject("losses", share * limit, ~((share >= 0) & (share <= 1)), f"[0, {limit:g}]")
    weight = np.ones(len(share)) if weights is None else _checked_weights(weights, len(share))
    fold = spread_folds(share, validate.generator("rng", rng))
    scoring = [
        each if hasattr(each, "log_prob") else as_policy(f"policies[{place}]", each)
        for place, each in enumerate(policies)
    ]
    features = PairFeatures(rows, taken, scoring)
    base = float(np.average(share, weights=weight))
    constant = logit(np.array([(base * len(share) + 0.5) / (len(share) + 1)]))[0]
    best = FittedLoss("constant", limit, 0.0, (), features, float(constant), 0.0)
    if min((share > 0).sum(), (share < 1).sum()) < LOSS_FOLDS:
        return best  # too few to learn from
    held_out = HeldOutFits(share, weight, fold, rng)
    of_constant = best_likelihood = likelihood_of(np.full(len(share), constant), share)
    for kind, inputs, models in kinds_of_models(features, len(share)):
        matrix = inputs(rows, taken)
        if kind == "trees" and not held_out.promising(models[0], matrix, best_likelihood):
            continue
        fits = [held_out.fit(model, matrix) for model in models]
        fitted, shift, slope, likelihood = max(fits, key=lambda fit: (weight * fit[3]).sum())
        gain = weight * (likelihood - best_likelihood)
        if gain.sum() > max(LEAST_GAIN, gain.std() * np.sqrt(len(gain))):
            improvement = np.mean(weight * (likelihood - of_constant))
            best = FittedLoss(kind, limit, float(improvement), fitted, inputs, shift, slope)
            best_likelihood = likelihood
    return best


def _checked_weights(weights: ArrayLike, rows: int) -> Floats:
    """Weights with a mean of 1."""
    weight = validate.floats("weights", weights)
    validate.same_length("weights", weight, "actions", rows)
    wrong = ~((weight >= 0) & (weight < np.inf))
    if wrong.any():
        validate.reject("weights", weight, wrong, "a finite weight of at least 0")
    if not weight.any():
        raise ValueError("weights must not all be 0")
    return np.asarray(weight / weight.mean())
