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
from tether._core.contexts import as_contexts, length, take
from tether._core.types import Booleans, Floats, Integers
from tether.aiming.pair_features import PairFeatures
from tether.policies.ratio_classifier import seeded_clone

LOSS_FOLDS = 5
"""How many models are fitted, each without one fold of the rows."""
MIN_ROWS_FOR_TREES = 300
"""From this many rows on trees are tried."""
LARGEST_LOG_ODDS = 12.0
"""Log odds of a predicted loss are clipped here."""
LEAST_GAIN = 2.0
"""How many nats of held-out likelihood a more complex kind must gain: two numbers, shift and slope,
are fitted to these rows."""
RIDGE_STRENGTHS = (0.02, 0.1, 0.5, 2.0)
"""The inverse penalties of logistic regression that are tried."""
MAX_SLOPE = 2.0
"""How far recalibration may stretch the log odds."""


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
        mean = np.mean([_log_odds(model, matrix) for model in self.models], axis=0)
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
        The contexts of the rows, in numbers, or None where there are none.
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
        does what is harmful, and the optimized one.

    Returns
    -------
    FittedLoss
        The model.

    Raises
    ------
    TypeError
        If contexts or actions are neither numbers nor labels.
    ValueError
        If lengths differ, or a loss is outside [0, bound].

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, a = rng.normal(size=500), rng.integers(2, size=500)
    >>> harmed = rng.random(500) < np.where(a == 1, 1 / (1 + np.exp(-3 * x)), 0.05)
    >>> model = fit_loss(x, a, harmed, rng=rng)
    >>> model.kind, model(np.array([-2.0, 2.0]), np.array([1, 1])).round(1)
    ('linear', array([0., 1.]))
    """
    taken = np.asarray(actions)
    rows = as_contexts(contexts, taken)
    limit = validate.number("bound", bound, above=0, below=np.inf)
    share = validate.floats("losses", losses) / limit
    validate.same_length("losses", share, "actions", len(taken))
    if not (share.min() >= 0 and share.max() <= 1):
        validate.reject("losses", share * limit, ~((share >= 0) & (share <= 1)), f"[0, {limit:g}]")
    weight = np.ones(len(share)) if weights is None else validate.floats("weights", weights)
    validate.same_length("weights", weight, "actions", len(taken))
    weight = weight / weight.mean()
    fold = _folds(share, validate.generator("rng", rng))
    features = PairFeatures(rows, taken, policies)
    base = float(np.average(share, weights=weight))
    constant = _logit(np.array([(base * len(share) + 0.5) / (len(share) + 1)]))[0]
    best = FittedLoss("constant", limit, 0.0, (), features, float(constant), 0.0)
    if min((share > 0).sum(), (share < 1).sum()) < LOSS_FOLDS:
        return best  # too few to learn from
    held_out = _HeldOut(share, weight, fold, rng)
    of_constant = best_likelihood = _likelihood(np.full(len(share), constant), share)
    for kind, inputs, models in _kinds(features, len(share)):
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


def _folds(share: Floats, rng: np.random.Generator) -> Integers:
    """A random fold for each row, with about as many losses in each."""
    order = rng.permutation(len(share))
    fold = np.empty(len(share), dtype=np.int64)
    fold[order[np.argsort(share[order], kind="stable")]] = np.arange(len(share)) % LOSS_FOLDS
    return fold


def _kinds(features: PairFeatures, rows: int) -> list[tuple[str, PairFeatures, list[Any]]]:
    """The kinds of models that are tried, simplest first: name, features, and settings."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    linear = [LogisticRegression(C=strength, max_iter=500) for strength in RIDGE_STRENGTHS]
    kinds: list[tuple[str, PairFeatures, list[Any]]] = [("linear", features, linear)]
    if rows >= MIN_ROWS_FOR_TREES:
        trees = HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=8, learning_rate=0.1, min_samples_leaf=20, max_bins=63
        )
        kinds.append(("trees", features.without_products(), [trees]))
    return kinds


class _HeldOut:
    """Fits one model for each fold on the others, and predicts the rows of the fold by it."""

    def __init__(
        self, share: Floats, weight: Floats, fold: Integers, rng: np.random.Generator
    ) -> None:
        self.share, self.weight, self.fold, self.rng = share, weight, fold, rng

    def fit(self, unfitted: Any, matrix: Floats) -> tuple[tuple[Any, ...], float, float, Floats]:
        """The models, shift and slope of the log odds, and the likelihood of held-out rows."""
        log_odds, models = np.empty(len(self.share)), []
        for number in range(LOSS_FOLDS):
            model, held_out = self._without(number, unfitted, matrix)
            log_odds[held_out] = _log_odds(model, matrix[held_out])
            models.append(model)
        shift, slope = _recalibrate(log_odds, self.share, self.weight)
        return tuple(models), shift, slope, _likelihood(shift + slope * log_odds, self.share)

    def promising(self, unfitted: Any, matrix: Floats, best_likelihood: Floats) -> bool:
        """Whether it is better on the first fold: what is slow to fit is not fitted for nothing."""
        model, held_out = self._without(0, unfitted, matrix)
        log_odds = _log_odds(model, matrix[held_out])
        share, weight = self.share[held_out], self.weight[held_out]
        shift, slope = _recalibrate(log_odds, share, weight)
        gain = weight * (_likelihood(shift + slope * log_odds, share) - best_likelihood[held_out])
        return bool(gain.sum() > 0)

    def _without(self, number: int, unfitted: Any, matrix: Floats) -> tuple[Any, Booleans]:
        held_out = self.fold == number
        model = seeded_clone(unfitted, self.rng)
        _fit(model, matrix[~held_out], self.share[~held_out], self.weight[~held_out])
        return model, held_out


def _fit(model: Any, matrix: Floats, share: Floats, weight: Floats) -> None:
    """Fit a classifier of losses at the bound: a fraction of a loss is that fraction of a row."""
    lost, kept = share > 0, share < 1
    rows = np.concatenate([np.flatnonzero(lost), np.flatnonzero(kept)])
    classes = np.repeat([1, 0], [int(lost.sum()), int(kept.sum())])
    weights = np.concatenate([(weight * share)[lost], (weight * (1 - share))[kept]])
    alike = bool((weights == weights[0]).all())  # then trees are faster without
    model.fit(take(matrix, rows), classes, sample_weight=None if alike else weights)


def _log_odds(model: Any, matrix: Floats) -> Floats:
    if len(model.classes_) == 1:  # its rows had one kind of loss
        return np.full(len(matrix), LARGEST_LOG_ODDS * (2.0 * model.classes_[0] - 1))
    log_odds = np.asarray(model.decision_function(matrix), dtype=np.float64)
    return np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)


def _logit(probability: Floats) -> Floats:
    smallest = 1 / (1 + np.exp(LARGEST_LOG_ODDS))
    inside = np.clip(probability, smallest, 1 - smallest)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _likelihood(log_odds: Floats, share: Floats) -> Floats:
    """The log-likelihood of each row."""
    return np.asarray(share * log_odds - np.logaddexp(0.0, log_odds))


def _recalibrate(log_odds: Floats, share: Floats, weight: Floats) -> tuple[float, float]:
    """Shift and slope of held-out log odds with the largest likelihood."""
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(parameters: Floats) -> tuple[float, Floats]:
        values = parameters[0] + parameters[1] * log_odds
        pull = weight * (expit(values) - share) / len(share)
        gradient = np.array([pull.sum(), (pull * log_odds).sum()])
        return -float(np.mean(weight * _likelihood(values, share))), gradient

    found = minimize(
        loss,
        np.array([0.0, 1.0]),
        jac=True,
        method="L-BFGS-B",
        bounds=((None, None), (0.0, MAX_SLOPE)),
    )
    return float(found.x[0]), float(found.x[1])
