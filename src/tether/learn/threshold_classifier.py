"""A binary classifier whose threshold is calibrated, so that a rate of errors is bounded."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from tether._core import validate
from tether._core.plain_arrays import plain_column
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Floats
from tether._core.warning_categories import PromiseWarning
from tether.learn.all_or_nothing import all_or_nothing
from tether.learn.checked_features import (
    checked_features,
    features_noted,
    labelled_rows,
    shared_tags,
)
from tether.learn.held_out_rows import hold_out, seed_from
from tether.learn.known_labels import known_labels
from tether.learn.lowered_scores import lowered_scores
from tether.thresholds import ScoredLabels
from tether.thresholds.claims import group_names
from tether.thresholds.losses import LABEL_LOSSES
from tether.thresholds.methods import METHODS


class ThresholdClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predict the positive class from a threshold on, chosen so that a rate of errors is bounded.

    `fit` trains the classifier on a part of the rows and chooses the threshold on the others, among
    all scores that occur and not on a grid. `calibrate` chooses it alone: with a classifier that is
    fitted already, `ThresholdClassifier(model, alpha=0.1).calibrate(X, y).predict(X_new)`.

    Parameters
    ----------
    estimator : classifier
        A binary classifier with `predict_proba`. One that is fitted already is kept as it is by
        `calibrate`, and by `fit` inside `sklearn.frozen.FrozenEstimator`.
    alpha : float, optional
        The tolerated rate of errors. Pass this or `promise`.
    promise : float, optional
        The whole bound to be stated.
    loss : str, default "false_positive"
        The rate: "false_positive", "false_negative" (1 − recall), or "false_discovery"
        (1 − precision).
    thresholds : array-like, optional
        Candidates, strictly increasing; by default every score that occurs. Required for
        "false_discovery", a rate among the selected: the largest should select enough rows.
    method : str, default "gcrc"
        "gcrc", "crc", "monotonized_crc", or "ltt", which promises with a probability.
    confidence : float, optional
        The probability with which the promise of "ltt" holds; 0.9 by default.
    pos_label : int, float, bool or str, optional
        The positive class; by default the second of `classes_`.
    calibration_share : float, default 0.5
        The share of the rows of `fit` that is held out to choose the threshold on.
    random_state : int, RandomState or None, default None
        The seed of the split.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes.
    estimator_ : classifier
        The fitted classifier.
    selection_ : Selection
        The threshold and what is promised for it; it prints as a summary.
    threshold_ : float
        The positive class is predicted where its probability is at least this: a probability that
        occurs, or, by a relative 1e-10, the value below it, since a model may give the same row
        other last bits alone than among others.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(4000, flip_y=0.1, random_state=0)
    >>> model = LogisticRegression().fit(X[:1000], y[:1000])
    >>> found = ThresholdClassifier(model, alpha=0.1).calibrate(X[1000:3000], y[1000:3000])
    >>> bool(found.predict(X[3000:])[y[3000:] == 0].mean() < 0.13)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        alpha: float | None = None,
        promise: float | None = None,
        loss: str = "false_positive",
        thresholds: ArrayLike | None = None,
        method: str = "gcrc",
        confidence: float | None = None,
        pos_label: Any = None,
        calibration_share: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.promise = promise
        self.loss = loss
        self.thresholds = thresholds
        self.method = method
        self.confidence = confidence
        self.pos_label = pos_label
        self.calibration_share = calibration_share
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the classifier on a part of the rows, and choose the threshold on the others.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The class of each row.

        Returns
        -------
        ThresholdClassifier
            Itself, fitted and calibrated.

        Raises
        ------
        ValueError
            If an argument is invalid, there are not two classes, or too few rows.
        """
        with all_or_nothing(self):
            return self._fit(X, y)

    def calibrate(self, X: Any, y: ArrayLike, *, groups: ArrayLike | None = None) -> Self:
        """Choose the threshold anew, on rows that the classifier was not fitted on.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The class of each row.
        groups : array-like of shape (n_samples,), optional
            The group of each row, for one threshold and one promise per group.

        Returns
        -------
        ThresholdClassifier
            Itself, calibrated.

        Raises
        ------
        ValueError
            If the classifier is not fitted, or the rows are invalid.
        """
        with all_or_nothing(self):
            return self._calibrate_anew(X, y, groups)

    def predict_proba(self, X: Any) -> Floats:
        """Compute the probabilities that the classifier predicts; the threshold changes nothing.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            One row per sample, one column per class.
        """
        check_is_fitted(self, "selection_")
        return np.asarray(self.estimator_.predict_proba(checked_features(self, X)))

    def predict(self, X: Any, *, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Predict the positive class where its probability reaches the threshold.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The features.
        groups : array-like of shape (n_samples,), optional
            The group of each row, where each group has a threshold.

        Returns
        -------
        ndarray of shape (n_samples,)
            One class per row.
        """
        check_is_fitted(self, "selection_")
        scores = self._scores(checked_features(self, X)).astype(np.float64)
        positive = scores >= self._thresholds(len(scores), groups)
        return np.asarray(self.classes_[np.where(positive, self._place, 1 - self._place)])

    @property
    def threshold_(self) -> float:
        """The positive class is predicted where its probability is at least this."""
        check_is_fitted(self, "selection_")
        return float(self.selection_.threshold)

    def _fit(self, X: Any, y: ArrayLike) -> Self:
        X, labels = labelled_rows(self, X, y)
        self.classes_ = _two_classes(labels)
        rng = np.random.default_rng(seed_from(self.random_state))
        rows = hold_out(X, labels, self.calibration_share, rng)
        self.estimator_ = clone(self.estimator).fit(rows.X_fit, rows.y_fit)
        self.fitted_here_ = True
        unknown = np.setdiff1d(self.estimator_.classes_, self.classes_)
        if len(unknown):
            raise ValueError(
                f"estimator has the class {unknown[0].item()!r}, which is not in y: "
                f"{self.classes_.tolist()}"
            )
        return self._calibrate(rows.X_calibration, rows.y_calibration, None)

    def _calibrate_anew(self, X: Any, y: ArrayLike, groups: ArrayLike | None) -> Self:
        fitted_before = not hasattr(self, "fitted_here_")
        if fitted_before:  # another estimator may have been set since
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            self.classes_ = _two_classes(plain_column("classes_", self.estimator.classes_))
        check_row_indexes({"X": X, "y": y, "groups": groups})
        note = fitted_before and not features_noted(self, self.estimator)
        X = checked_features(self, X, reset=note)
        return self._calibrate(X, known_labels(y, X.shape[0], self.classes_), groups)

    def _calibrate(self, X: Any, labels: NDArray[Any], groups: ArrayLike | None) -> Self:
        validate.choice("loss", self.loss, LABEL_LOSSES)
        method = METHODS[validate.choice("method", self.method, METHODS)]
        options: dict[str, Any] = {} if groups is None else {"groups": groups}
        if self.confidence is not None:
            if self.method != "ltt":
                raise ValueError(
                    f"confidence is for method 'ltt', got confidence = {self.confidence!r} and "
                    f"method = {self.method!r}"
                )
            options["confidence"] = self.confidence
        if self.loss == "false_discovery" and self.thresholds is None:
            raise ValueError(
                "loss 'false_discovery' is a rate among the selected, so it needs thresholds, the "
                "largest of which selects enough rows, such as numpy.linspace(0.3, 0.8, 51); got "
                "thresholds = None"
            )
        self._place = self._positive_place()
        scores = self._scores(X)
        if self.thresholds is None:  # a score becomes the threshold
            scores = lowered_scores(scores)
        scored = ScoredLabels(scores, labels == self.classes_[self._place])
        self.selection_ = method(
            scored,
            self.thresholds,
            alpha=self.alpha,
            promise=self.promise,
            loss=self.loss,
            **options,
        )
        if not self.selection_.useful:
            warnings.warn(
                f"no useful promise can be made from {scored.n_items:,} rows: see selection_ for "
                f"what is stated",
                PromiseWarning,
                stacklevel=4,
            )
        return self

    def _positive_place(self) -> int:
        if self.pos_label is None:
            return 1
        found = np.flatnonzero(self.classes_ == self.pos_label)
        if not len(found):
            raise ValueError(
                f"pos_label must be one of {self.classes_.tolist()}, got {self.pos_label!r}"
            )
        return int(found[0])

    def _scores(self, X: Any) -> NDArray[Any]:
        probabilities = np.asarray(self.estimator_.predict_proba(X))
        if np.isnan(probabilities).any():  # a score that is no number would reach no threshold
            bad = np.isnan(probabilities)
            validate.reject("predict_proba(X)", probabilities, bad, "a probability")
        known = plain_column("classes_", self.estimator_.classes_)
        column = np.flatnonzero(known == self.classes_[self._place])
        return probabilities[:, column[0]] if len(column) else np.zeros(len(probabilities))

    def _thresholds(self, count: int, groups: ArrayLike | None) -> Any:
        """The threshold of each row, or one for all."""
        if groups is None:
            if self.selection_.groups:
                raise ValueError(
                    "groups is required: there is one threshold per group "
                    f"({', '.join(map(repr, self.selection_.groups))})"
                )
            return self.selection_.threshold
        labels, place = np.unique(validate.labels("groups", groups, count), return_inverse=True)
        names = group_names(labels).tolist()
        return np.array([self.selection_.for_group(name).threshold for name in names])[place]

    def __sklearn_tags__(self) -> Any:
        tags = shared_tags(super().__sklearn_tags__(), self.estimator)
        tags.classifier_tags.multi_class = False
        return tags


def _two_classes(labels: NDArray[Any]) -> NDArray[Any]:
    classes = np.unique(labels)
    if len(classes) == 1:
        raise ValueError(f"y must have two classes, got one class: {classes[0].item()!r}")
    if len(classes) != 2:
        raise ValueError(
            "Only binary classification is supported: y must have two classes, got "
            f"{len(classes)}: {classes[:5].tolist()}"
        )
    return classes
