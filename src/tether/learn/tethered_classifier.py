"""A classifier between a safe one and an optimized one, whose expected loss is bounded."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from tether._core.plain_arrays import plain_column
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Floats
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import PromiseWarning
from tether.control.calibrate import calibrate as find_beta
from tether.control.calibration import why_not_useful
from tether.learn.action_losses import action_losses
from tether.learn.all_or_nothing import all_or_nothing
from tether.learn.checked_features import (
    checked_features,
    features_noted,
    labelled_rows,
    shared_tags,
)
from tether.learn.classifier_policy import classifier_policy
from tether.learn.drawn_actions import refuse_most_likely_classes
from tether.learn.held_out_rows import hold_out, seed_from
from tether.learn.known_labels import known_labels, one_label_per_row
from tether.learn.row_draws import draw_by_row
from tether.policies.log_from_policies import make_log
from tether.policies.tethered import Tethered


class TetheredClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Keep an optimized classifier on a tether to a safe one.

    Both classifiers are policies: they take each class with the probability that they predict.
    `fit` trains both on a part of the rows and calibrates on the others how far the optimized one
    may go; `calibrate` does the second part alone, also on a log of what the safe classifier did.

    The promise is about actions that are *drawn* with the probabilities of `predict_proba`, so this
    is what `predict` does; the most likely class is promised nothing. A draw depends on
    `random_state` and on the content of its row, so the same row has the same prediction.

    Where the calibration is not useful (`calibration_.useful`), the safe classifier serves,
    whatever beta is, and a `tether.PromiseWarning` says why.

    Parameters
    ----------
    safe : classifier
        The classifier whose risk is accepted, with `predict_proba`. One that is fitted already is
        kept as it is inside `sklearn.frozen.FrozenEstimator`.
    optimized : classifier
        The classifier that is better, perhaps.
    alpha : float, optional
        The tolerated expected loss. Pass this or `promise`.
    promise : float, optional
        The whole bound to be stated.
    confidence : float, optional
        Promise with this probability over logs, not on average over them, as in `tether.calibrate`.
    loss : array-like or callable, optional
        What an action costs: a table of costs with one row per true class and one column per
        action, in the order of `classes_`, or a function of (labels, actions) that returns one loss
        per row. By default 1 for a wrong class and 0 for the right one.
    bound : float, default 1.0
        The largest possible loss.
    family : str, default "clip"
        How beta turns two policies into one, as in `tether.calibrate`.
    outside : str, optional
        What to do with classes that the safe classifier never takes, as in `tether.Tethered`: by
        default they are never taken.
    calibration_share : float, default 0.5
        The share of the rows of `fit` that is held out to calibrate on.
    random_state : int, RandomState or None, default None
        The seed of the split and of all draws.

    Attributes
    ----------
    classes_ : ndarray
        The classes, in the order of the columns of `predict_proba`.
    safe_, optimized_ : classifier
        The fitted classifiers.
    calibration_ : Calibration
        How far the optimized classifier may go, and what is promised; it prints as a summary.
    policy_ : Tethered
        The policy that `predict` draws from; its beta is 0 where the calibration is not useful.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(2000, random_state=0)
    >>> model = TetheredClassifier(
    ...     DummyClassifier(strategy="uniform"), LogisticRegression(), alpha=0.55, random_state=0
    ... ).fit(X, y)
    >>> model.calibration_.exists, bool(model.score(X, y) > 0.7)
    (True, True)
    """

    def __init__(
        self,
        safe: Any,
        optimized: Any,
        *,
        alpha: float | None = None,
        promise: float | None = None,
        confidence: float | None = None,
        loss: Any = None,
        bound: float = 1.0,
        family: str = "clip",
        outside: str | None = None,
        calibration_share: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.safe = safe
        self.optimized = optimized
        self.alpha = alpha
        self.promise = promise
        self.confidence = confidence
        self.loss = loss
        self.bound = bound
        self.family = family
        self.outside = outside
        self.calibration_share = calibration_share
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit both classifiers on a part of the rows, and calibrate on the others.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The right class of each row.

        Returns
        -------
        TetheredClassifier
            Itself, fitted and calibrated.

        Raises
        ------
        ValueError
            If an argument is invalid, or there are too few rows.
        """
        with all_or_nothing(self):
            return self._fit(X, y)

    def calibrate(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        actions: ArrayLike | None = None,
        losses: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        propensities: ArrayLike | None = None,
    ) -> Self:
        """Find anew how far the optimized classifier may go, on rows that neither was fitted on.

        Pass the right classes `y`, from which the losses of drawn actions follow, or a log: the
        `actions` that the safe classifier took, drawn with its probabilities, and their `losses`.
        Without `fit` before, `safe` and `optimized` are used as they are, and must be fitted.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,), optional
            The right class of each row.
        actions : array-like of shape (n_samples,), optional
            The class that the safe classifier chose in each row.
        losses : array-like of shape (n_samples,), optional
            What each of them cost.
        rewards : array-like of shape (n_samples,), optional
            What each of them brought, for `tether.gain(calibration_)`.
        propensities : array-like of shape (n_samples,), optional
            The probability with which each of them was chosen, as it was recorded. They are
            compared with the safe classifier's own: without them it is only noticed if the safe
            classifier is far from what took the actions.

        Returns
        -------
        TetheredClassifier
            Itself, calibrated.

        Raises
        ------
        ValueError
            If neither `y` nor both of `actions` and `losses` are passed, or they are invalid.
        """
        logged = {"actions": actions, "losses": losses}
        beside = {"rewards": rewards, "propensities": propensities}
        with all_or_nothing(self):
            return self._calibrate_anew(X, y, logged, beside)

    def predict_proba(self, X: Any) -> Floats:
        """Compute the probability with which each class is predicted.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One row per sample, one column per class.
        """
        check_is_fitted(self, "policy_")
        return self._probabilities(checked_features(self, X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Draw a class for each row with the probabilities of `predict_proba`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of shape (n_samples,)
            One class per row; the same for the same row.
        """
        check_is_fitted(self, "policy_")
        X = checked_features(self, X)
        return np.asarray(self.classes_[draw_by_row(self._probabilities(X), X, self.seed_)])

    def _probabilities(self, X: Any) -> Floats:
        return np.asarray(np.exp(self.policy_.log_prob_all(X)))

    def _fit(self, X: Any, y: ArrayLike) -> Self:
        X, labels = labelled_rows(self, X, y)
        self.seed_ = seed_from(self.random_state)
        self.classes_ = np.unique(labels)
        rng = np.random.default_rng(self.seed_)
        rows = hold_out(X, labels, self.calibration_share, rng)
        self.safe_ = clone(self.safe).fit(rows.X_fit, rows.y_fit)
        self.optimized_ = clone(self.optimized).fit(rows.X_fit, rows.y_fit)
        self.fitted_here_ = True
        return self._calibrate_on_labels(rows.X_calibration, rows.y_calibration, rng)

    def _calibrate_anew(
        self, X: Any, y: ArrayLike | None, logged: dict[str, Any], beside: dict[str, Any]
    ) -> Self:
        fitted_before = not hasattr(self, "fitted_here_")
        if fitted_before:  # other classifiers may have been set since
            for each in (self.safe, self.optimized):
                check_is_fitted(each)
            self.seed_ = seed_from(self.random_state)
            self.safe_, self.optimized_ = self.safe, self.optimized
            self.classes_ = np.unique(plain_column("classes_", self.safe.classes_))
        check_row_indexes({"X": X, "y": y, **logged, **beside})
        note = fitted_before and not features_noted(self, self.safe, self.optimized)
        X = checked_features(self, X, reset=note)
        given = {"y": y, **logged, **beside}
        passed = [name for name, value in given.items() if value is not None]
        if passed == ["y"]:
            if callable(self.loss):  # it may know of classes that no classifier does
                labels = one_label_per_row(y, X.shape[0])
            else:
                labels = known_labels(y, X.shape[0], self.classes_)
            return self._calibrate_on_labels(X, labels, np.random.default_rng(self.seed_))
        if passed[:2] == ["actions", "losses"]:
            actions = plain_column("actions", logged["actions"])
            return self._calibrate(X, actions, logged["losses"], beside)
        raise ValueError(
            "calibrate needs the right classes y, or what the safe classifier did: actions and "
            "losses, beside which there may be rewards and propensities; got "
            f"{', '.join(passed) or 'neither'}"
        )

    def _calibrate_on_labels(self, X: Any, labels: NDArray[Any], rng: np.random.Generator) -> Self:
        safe = classifier_policy("safe", self.safe_, self.classes_)
        actions = safe.sample(X, rng)
        losses = action_losses(self.loss, self.bound, self.classes_, labels, actions)
        return self._calibrate(X, actions, losses)

    def _calibrate(
        self, X: Any, actions: NDArray[Any], losses: Any, beside: dict[str, Any] | None = None
    ) -> Self:
        safe = classifier_policy("safe", self.safe_, self.classes_)
        optimized = classifier_policy("optimized", self.optimized_, self.classes_)
        log = make_log(safe, optimized, X, actions, losses, **(beside or {}))
        if beside is not None:
            refuse_most_likely_classes(safe.log_prob_all(X), log.log_safe)
        found = find_beta(
            log,
            alpha=self.alpha,
            promise=self.promise,
            confidence=self.confidence,
            bound=self.bound,
            family=self.family,
        )
        self.calibration_ = found
        if found.useful:
            self.policy_ = Tethered(safe, optimized, found, outside=self.outside)
            return self
        self.policy_ = Tethered(safe, optimized, 0.0, family=self.family, outside=self.outside)
        why = f"no useful promise can be made from {len(log):,} rows, as no beta passes"
        if found.exists:
            why = why_not_useful(found)
        warn_user(
            f"the safe classifier serves: {why}. calibration_.warnings says what would help",
            PromiseWarning,
        )
        return self

    def __sklearn_tags__(self) -> Any:
        return shared_tags(super().__sklearn_tags__(), self.safe, self.optimized)
