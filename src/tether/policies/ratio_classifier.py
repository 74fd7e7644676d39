"""The log ratio of two policies' densities, from classifiers that tell their draws apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core.extras import require
from tether._core.types import Booleans, Floats, Integers
from tether.policies.ratio_features import is_sparse

MAX_FEATURES_WITH_PRODUCTS = 32
"""Up to this many features the default classifier uses their squares and products as well."""
MAX_RECALIBRATION_SLOPE = 4.0
"""How far recalibration may stretch the log odds of a classifier."""


@dataclass(frozen=True)
class RatioClassifier:
    """The average log odds of the classifiers of all folds, recalibrated and clipped.

    The average is one fixed function of context and action, changes its sign if the two policies
    are exchanged, and is never more extreme than the classifiers are.
    """

    models: tuple[Any, ...]
    shift: float
    slope: float
    lowest: float
    highest: float

    def log_ratio(self, matrix: Any) -> Floats:
        """Log of optimized over safe density, one per row of features."""
        log_odds = np.mean([log_odds_of(model, matrix) for model in self.models], axis=0)
        return self.finish(log_odds)

    def finish(self, log_odds: Floats) -> Floats:
        """Log ratios from the log odds of a classifier."""
        return np.clip(self.shift + self.slope * log_odds, self.lowest, self.highest)


def cross_fit(
    classifier: Any,
    matrix: Any,
    is_optimized: Booleans,
    fold: Integers,
    rng: np.random.Generator,
) -> tuple[RatioClassifier, Floats]:
    """Fit one classifier per fold on the other folds; also the log ratio of each draw by its own.

    Log odds are the log ratio plus the log of the two numbers of draws. Shift and slope that fit
    best on draws that a classifier did not see remove that constant, the weights of classes, and
    too much or too little confidence of the classifier. Log ratios are clipped at the log of the
    number of draws: a larger ratio rests on none of the draws of the other policy.
    """
    if classifier is None:
        classifier = default_classifier(matrix)
    log_odds, models = np.empty(len(fold)), []
    for number in range(int(fold.max()) + 1):
        model, held_out = seeded_clone(classifier, rng), fold == number
        model.fit(matrix[~held_out], is_optimized[~held_out].astype(np.int64))
        log_odds[held_out] = log_odds_of(model, matrix[held_out])
        models.append(model)
    optimized = int(is_optimized.sum())
    log_draws = np.log([optimized, len(is_optimized) - optimized])
    log_prior = float(log_draws[0] - log_draws[1])
    shift, slope = recalibrated(log_odds, is_optimized)
    scorer = RatioClassifier(
        tuple(models), shift - log_prior, slope, -float(log_draws[0]), float(log_draws[1])
    )
    return scorer, scorer.finish(log_odds)


def log_odds_of(model: Any, matrix: Any) -> Floats:
    """Log odds of "the optimized policy drew this"; finite also at probabilities of 0 and 1."""
    column = int(np.flatnonzero(np.asarray(model.classes_) == 1)[0])
    probability = np.asarray(model.predict_proba(matrix), dtype=np.float64)[:, column]
    if not (probability.min() >= 0 and probability.max() <= 1):  # NaN fails this too
        raise ValueError("classifier returned a probability that is not between 0 and 1")
    smallest = 1e-12
    probability = np.clip(probability, smallest, 1 - smallest)
    return np.asarray(np.log(probability) - np.log1p(-probability))


def recalibrated(log_odds: Floats, is_optimized: Booleans) -> tuple[float, float]:
    """Shift and slope of the log odds with the largest likelihood; the slope is not negative."""
    from scipy.optimize import minimize
    from scipy.special import expit

    sign = np.where(is_optimized, 1.0, -1.0)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        margin = sign * (parameters[0] + parameters[1] * log_odds)
        pull = -sign * expit(-margin) / len(sign)
        gradient = np.array([pull.sum(), (pull * log_odds).sum()])
        return float(np.logaddexp(0.0, -margin).mean()), gradient

    bounds = ((None, None), (0.0, MAX_RECALIBRATION_SLOPE))
    start = np.array([0.0, 1.0])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(found.x[0]), float(found.x[1])


def seeded_clone(classifier: Any, rng: np.random.Generator) -> Any:
    """An unfitted copy whose random states, where none is set, come from the generator."""
    from sklearn.base import clone

    copy = clone(classifier)
    open_states = {
        name: int(rng.integers(2**31 - 1))
        for name, value in sorted(copy.get_params(deep=True).items())
        if name.rpartition("__")[2] == "random_state" and value is None
    }
    return copy.set_params(**open_states)


def default_classifier(matrix: Any) -> Any:
    """Logistic regression on scaled features and, if they are few, their products.

    With products it contains the log ratio of two Gaussian policies with linear means exactly.
    """
    require("tether.estimate_ratio", "sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    steps: list[Any] = [StandardScaler(with_mean=not is_sparse(matrix))]
    if matrix.shape[1] <= MAX_FEATURES_WITH_PRODUCTS and not is_sparse(matrix):
        steps += [PolynomialFeatures(2, include_bias=False), StandardScaler()]
    return make_pipeline(*steps, LogisticRegression(max_iter=1_000))
