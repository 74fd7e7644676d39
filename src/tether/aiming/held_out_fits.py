"""Models of a loss, fitted on some rows and compared on others.

The models of all folds are kept, with a shift and a slope of their log odds that fit best on the
rows that they have not seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.contexts import take
from tether._core.extras import require
from tether._core.types import Booleans, Floats, Integers
from tether.aiming.pair_features import PairFeatures
from tether.aiming.saved_log_odds import LinearLogOdds, TreeLogOdds
from tether.policies.ratio import seeded_clone

LOSS_FOLDS = 5
"""How many models are fitted, each without one fold of the rows."""
MIN_ROWS_FOR_TREES = 300
"""From this many rows on trees are tried."""
LARGEST_LOG_ODDS = 12.0
"""Log odds of a predicted loss are clipped here."""
RIDGE_STRENGTHS = (0.02, 0.1, 0.5, 2.0)
"""The inverse penalties of logistic regression that are tried."""
MAX_SLOPE = 2.0
"""How far recalibration may stretch the log odds."""


def spread_folds(share: Floats, rng: np.random.Generator) -> Integers:
    """A random fold for each row, with about as many losses in each."""
    order = rng.permutation(len(share))
    fold = np.empty(len(share), dtype=np.int64)
    fold[order[np.argsort(share[order], kind="stable")]] = np.arange(len(share)) % LOSS_FOLDS
    return fold


def kinds_of_models(features: PairFeatures, rows: int) -> list[tuple[str, PairFeatures, list[Any]]]:
    """The kinds of models that are tried, simplest first: name, features, and settings."""
    require("a fitted loss model", "sklearn")
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


class HeldOutFits:
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
            log_odds[held_out] = log_odds_of(model, matrix[held_out])
            models.append(model)
        shift, slope = _recalibrate(log_odds, self.share, self.weight)
        return tuple(models), shift, slope, likelihood_of(shift + slope * log_odds, self.share)

    def promising(self, unfitted: Any, matrix: Floats, best_likelihood: Floats) -> bool:
        """Whether it is better on the first fold: what is slow to fit is not fitted for nothing."""
        model, held_out = self._without(0, unfitted, matrix)
        log_odds = log_odds_of(model, matrix[held_out])
        share, weight = self.share[held_out], self.weight[held_out]
        shift, slope = _recalibrate(log_odds, share, weight)
        gain = weight * (likelihood_of(shift + slope * log_odds, share) - best_likelihood[held_out])
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


def log_odds_of(model: Any, matrix: Floats) -> Floats:
    """The log odds that a fitted classifier predicts, clipped."""
    if isinstance(model, LinearLogOdds | TreeLogOdds):
        return np.clip(model.log_odds(matrix), -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    if len(model.classes_) == 1:  # its rows had one kind of loss
        return np.full(len(matrix), LARGEST_LOG_ODDS * (2.0 * model.classes_[0] - 1))
    log_odds = np.asarray(model.decision_function(matrix), dtype=np.float64)
    return np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)


def logit(probability: Floats) -> Floats:
    """The log odds of probabilities, clipped."""
    smallest = 1 / (1 + np.exp(LARGEST_LOG_ODDS))
    inside = np.clip(probability, smallest, 1 - smallest)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def likelihood_of(log_odds: Floats, share: Floats) -> Floats:
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
        return -float(np.mean(weight * likelihood_of(values, share))), gradient

    found = minimize(
        loss,
        np.array([0.0, 1.0]),
        jac=True,
        method="L-BFGS-B",
        bounds=((None, None), (0.0, MAX_SLOPE)),
    )
    return float(found.x[0]), float(found.x[1])
