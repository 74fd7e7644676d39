"""Two estimators that are fitted on a part of their rows and calibrated on the others."""

from __future__ import annotations

from copy import copy
from hashlib import blake2b
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import _safe_indexing, check_random_state, get_tags, validation
from sklearn.utils.multiclass import check_classification_targets

from tether._core import contexts, validate
from tether._core.arrays import Floats, check_row_indexes, few, plain_array, plain_column
from tether._core.words import PromiseWarning, warn_user
from tether.control.calibrate import calibrate as find_beta
from tether.policies import Categorical, Tethered, make_log
from tether.thresholds import ScoredLabels, crc, gcrc, ltt, monotonized_crc

METHODS: dict[str, Any] = {each.__name__: each for each in (gcrc, crc, monotonized_crc, ltt)}
"""How a `ThresholdClassifier` chooses its threshold."""


class _Calibrated(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier around those named in `_inner`; a call that fails changes nothing."""

    _inner: ClassVar[tuple[str, ...]]
    _calibrate_on_labels: Any
    calibration_share: float
    random_state: Any

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit on a part of the rows, and calibrate on the others, drawn at random.

        `X` has the features, as an array or a frame, and `y` the right class of each row.
        """
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        new = copy(self)
        check_row_indexes({"X": X, "y": y})
        X = new._features(X, reset=True)
        validation.check_consistent_length(X, y)
        check_classification_targets(y)
        labels = plain_column("y", validation.column_or_1d(y, warn=True))
        if len(labels) < 2:
            raise ValueError(f"X must have at least 2 rows, got n_samples = {len(labels)}")
        new._know(labels)
        share = validate.number("calibration_share", self.calibration_share, above=0, below=1)
        rng = np.random.default_rng(new.seed_)
        # No look at the labels: a stratified split would make the rows held out depend on all.
        order = rng.permutation(len(labels))
        held_out = min(max(1, round(share * len(labels))), len(labels) - 1)
        rows, fit = np.sort(order[:held_out]), np.sort(order[held_out:])
        for name in self._inner:
            model = clone(getattr(self, name)).fit(_safe_indexing(X, fit), labels[fit])
            setattr(new, f"{name}_", model)
        new.fitted_here_ = True
        new._calibrate_on_labels(_safe_indexing(X, rows), labels[rows], rng)
        self.__dict__.update(vars(new))
        return self

    def _with_features(self, columns: dict[str, Any]) -> tuple[Self, Any]:
        """A copy to calibrate, and its features; without `fit`, the classifiers as they are."""
        new, fitted_here = copy(self), hasattr(self, "fitted_here_")
        if not fitted_here:  # others may have been set since
            for name in self._inner:
                validation.check_is_fitted(getattr(self, name))
                setattr(new, f"{name}_", getattr(self, name))
            new._know(getattr(self, self._inner[0]).classes_)
        check_row_indexes(columns)
        return new, new._features(columns["X"], reset=not fitted_here)

    def _know(self, labels: Any) -> None:
        """Set the classes and the seed."""
        self.classes_ = np.unique(plain_column("classes_", labels))
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))

    def _features(self, X: Any, *, reset: bool = False) -> Any:
        """Features that are counted and named as in `fit`; a frame stays a frame."""
        X = contexts.as_contexts(X) if np.ma.is_masked(X) else X  # which refuses masked values
        if hasattr(X, "columns"):
            validation.validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        options = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": "allow-nan"}
        features = validation.validate_data(self, X, reset=reset, **options)
        if features.dtype == object and any(isinstance(each, dict) for each in features.flat):
            raise TypeError("X has a dict: each argument must be a string or a number")
        return features

    def _labels(self, y: Any, rows: int) -> NDArray[Any]:
        """One label per row, each of a known class."""
        labels, known = plain_column("y", y), set(self.classes_.tolist())
        validate.same_length("y", labels, "X", rows)
        for row, label in enumerate(labels.tolist()):
            if isinstance(label, list) or label not in known:
                raise ValueError(f"y[{row}] is {label!r}, expected one of {few(self.classes_)}")
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = [get_tags(getattr(self, name)).input_tags for name in self._inner]
        for name in ("sparse", "allow_nan", "string", "categorical"):
            setattr(tags.input_tags, name, all(getattr(each, name) for each in inner))
        return tags


class TetheredClassifier(_Calibrated):
    """Keep an optimized classifier on a tether to a safe one.

    Both classifiers are policies: they take each class with the probability that they predict.
    `fit` trains both on a part of the rows and calibrates on the others how far the optimized one
    may go; `calibrate` does the second part alone, also on a log of what the safe classifier did.

    The promise is about actions that are *drawn* with the probabilities of `predict_proba`, so
    `predict` draws too, from `random_state` and the content of each row. `calibration_` says how
    far the optimized classifier may go and what is promised. Where it is not useful, the safe
    classifier serves, and a `tether.PromiseWarning` says so.

    Parameters
    ----------
    safe, optimized : classifier
        The classifier whose risk is accepted, and the one that may be better. One that is already
        fitted stays as it is if it is wrapped in `sklearn.frozen.FrozenEstimator`.
    alpha, promise, confidence, bound, family
        The tolerated loss and what is promised about it, as in `tether.calibrate`.
    loss : array-like, pandas.DataFrame or callable, optional
        What an action costs: a table with one row per true class and one column per action, in the
        order of `classes_`; a frame whose index and columns are the classes, in any order; or a
        function of (labels, actions) that returns one loss per row. By default 1 for a wrong class.
    calibration_share : float, default 0.5
        The share of the rows of `fit` that is held out to calibrate on.
    random_state : int, RandomState or None, default None
        The seed of the split and of all draws.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(2000, random_state=0)
    >>> safe, new = DummyClassifier(strategy="uniform"), LogisticRegression()
    >>> model = TetheredClassifier(safe, new, alpha=0.55, random_state=0).fit(X, y)
    >>> model.calibration_.exists, bool(model.score(X, y) > 0.7)
    (True, True)
    """

    _inner = ("safe", "optimized")

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
        calibration_share: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.safe, self.optimized = safe, optimized
        self.alpha, self.promise, self.confidence = alpha, promise, confidence
        self.loss, self.bound, self.family = loss, bound, family
        self.calibration_share, self.random_state = calibration_share, random_state

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
        """Find again how far the optimized classifier may go, on rows that neither was fitted on.

        Before any `fit`, `safe` and `optimized` are used as they are, and must be fitted. Pass
        the right classes `y`, from which the losses of drawn actions follow, or a log: the
        `actions` that the safe classifier drew and their `losses`, perhaps with their `rewards` and
        the recorded `propensities`, which are compared with the safe classifier's own.
        """
        rows = {"y": y, "actions": actions, "losses": losses}
        rows |= {"rewards": rewards, "propensities": propensities}
        passed = [name for name, value in rows.items() if value is not None]
        if passed != ["y"] and passed[:2] != ["actions", "losses"]:
            raise ValueError(
                "calibrate needs either the right classes y, or actions and losses (and rewards "
                f"and propensities, if known); got {', '.join(passed) or 'neither'}"
            )
        new, X = self._with_features({"X": X, **rows})
        if y is not None:
            known = not callable(self.loss)  # a function may know of more classes
            labels = new._labels(y, X.shape[0]) if known else plain_column("y", y)
            new._calibrate_on_labels(X, labels, np.random.default_rng(new.seed_))
        else:
            new._calibrate(X, actions, losses, rewards=rewards, propensities=propensities)
        self.__dict__.update(vars(new))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Compute the probability with which each class is predicted, for each row of `X`."""
        validation.check_is_fitted(self, "policy_")
        return np.asarray(np.exp(self.policy_.log_prob_all(self._features(X))))

    def predict(self, X: Any) -> NDArray[Any]:
        """Draw a class for each row of `X` with the probabilities of `predict_proba`."""
        below = np.cumsum(self.predict_proba(X), axis=1)
        drawn = _uniform_by_row(self._features(X), self.seed_)[:, None] >= below / below[:, -1:]
        return np.asarray(self.classes_[np.minimum(drawn.sum(axis=1), len(self.classes_) - 1)])

    def _calibrate_on_labels(self, X: Any, labels: NDArray[Any], rng: np.random.Generator) -> None:
        actions = Categorical.from_classifier(self.safe_, self.classes_).sample(X, rng)
        if callable(self.loss):
            losses = validate.losses("loss", self.loss(labels, actions))
        else:
            costs = _cost_table(self.loss, self.classes_)
            losses = costs[
                tuple(np.searchsorted(self.classes_, each) for each in (labels, actions))
            ]
        self._calibrate(X, actions, losses)

    def _calibrate(self, X: Any, actions: Any, losses: Any, **logged: Any) -> None:
        safe = Categorical.from_classifier(self.safe_, self.classes_)
        optimized = Categorical.from_classifier(self.optimized_, self.classes_)
        log = make_log(safe, optimized, X, actions, losses, **logged)
        if logged:
            _refuse_most_likely_classes(safe.log_prob_all(X), log.log_safe)
        names = ("alpha", "promise", "confidence", "bound", "family")
        self.calibration_ = found = find_beta(log, **{name: getattr(self, name) for name in names})
        if found.useful:
            self.policy_ = Tethered(safe, optimized, found)
        else:
            self.policy_ = Tethered(safe, optimized, 0.0, family=self.family)
            why = f"no useful promise can be made from {len(log):,} rows"
            warn_user(f"the safe classifier serves: {why}, see calibration_", PromiseWarning)


def _cost_table(loss: Any, classes: NDArray[Any]) -> Floats:
    """Costs in the order of the classes; a frame is read by its labels, and only by them."""
    if loss is None:
        return 1.0 - np.eye(len(classes))
    if hasattr(loss, "columns") or hasattr(loss, "column_names"):
        wanted, places = [str(each) for each in classes.tolist()], []
        for axis in ("index", "columns"):
            found = [str(each) for each in getattr(loss, axis, ())]
            if sorted(found) != sorted(wanted):
                raise ValueError(
                    f"loss must be a pandas.DataFrame whose {axis} is the classes {few(classes)}, "
                    f"or an array in their order; got the {axis} {found[:5]}"
                )
            places.append([found.index(each) for each in wanted])
        loss = np.asarray(loss)[np.ix_(*places)]
    costs = validate.floats("loss", loss, ndim=2)
    if costs.shape != (len(classes), len(classes)):
        raise ValueError(
            f"loss must have one row per true class and one column per action, "
            f"{len(classes)} each, got shape {costs.shape}"
        )
    return costs


def _refuse_most_likely_classes(log_safe_all: Floats, log_safe: Floats) -> None:
    """Refuse the most likely class in every row: its losses are not those of drawn actions."""
    largest = log_safe_all.max(axis=1)
    log_chance = (largest + np.log((log_safe_all == largest[:, None]).sum(axis=1))).sum()
    if (log_safe == largest).all() and log_chance < np.log(1e-6):
        raise ValueError(
            f"actions must be drawn with predict_proba, but they are the safe classifier's most "
            f"likely class in each of {len(log_safe):,} rows: pass draws, or the right classes y"
        )


def _uniform_by_row(X: Any, seed: int) -> Floats:
    """One number in [0, 1) per row, uniform over seeds, that depends on its content alone."""
    if not hasattr(X, "tocsr") and (array := plain_array(X)).dtype.kind in "biuf":
        X = array.astype(np.float64)
    key, labels = seed.to_bytes(8, "little"), contexts.labels(contexts.as_contexts(X))
    digests = [blake2b(each.tobytes(), key=key, digest_size=8).digest() for each in labels]
    words = np.frombuffer(b"".join(digests), dtype="<u8") >> np.uint64(11)
    return np.asarray(words * 2.0**-53, dtype=np.float64)


class ThresholdClassifier(_Calibrated):
    """Predict the positive class from a threshold that is chosen to bound a rate of errors.

    `fit` trains the classifier on a part of the rows and chooses the threshold on the others, among
    all scores that occur. `calibrate` chooses it alone, for a classifier that is fitted already.
    `selection_` has the threshold and what is promised.

    Parameters
    ----------
    estimator : classifier
        A binary classifier with `predict_proba`. One that is already fitted stays as it is in
        `calibrate`, and in `fit` if it is wrapped in `sklearn.frozen.FrozenEstimator`.
    alpha, promise : float, optional
        The tolerated rate of errors, or the bound that is to be promised; pass one of them.
    loss : str, default "false_positive"
        The rate: "false_positive", "false_negative" (1 − recall), or "false_discovery"
        (1 − precision), for which the largest of `thresholds` should select enough rows.
    thresholds : array-like, optional
        Candidates, strictly increasing; by default every score that occurs.
    method, confidence : str, default "gcrc", and float, optional
        "gcrc", "crc", "monotonized_crc", or "ltt", which promises with this probability.
    pos_label : int, float, bool or str, optional
        The positive class; by default the second of `classes_`.
    calibration_share : float, default 0.5
        The share of the rows of `fit` that is held out to choose the threshold on.
    random_state : int, RandomState or None, default None
        The seed of the split.
    """

    _inner = ("estimator",)

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
        self.estimator, self.pos_label = estimator, pos_label
        self.alpha, self.promise, self.confidence = alpha, promise, confidence
        self.loss, self.thresholds, self.method = loss, thresholds, method
        self.calibration_share, self.random_state = calibration_share, random_state

    def calibrate(self, X: Any, y: ArrayLike, *, groups: ArrayLike | None = None) -> Self:
        """Choose the threshold again, on rows that the classifier was not fitted on.

        With `groups`, the group of each row, there is a threshold and a promise for each.
        """
        new, X = self._with_features({"X": X, "y": y, "groups": groups})
        new._calibrate(X, new._labels(y, X.shape[0]), groups=groups)
        self.__dict__.update(vars(new))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Compute the probabilities that the classifier predicts; the threshold changes nothing."""
        validation.check_is_fitted(self, "selection_")
        return np.asarray(self.estimator_.predict_proba(self._features(X)))

    def predict(self, X: Any, *, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Predict the positive class in each row of `X` where its probability is high enough.

        Where each group has a threshold of its own, `groups` has the group of each row.
        """
        validation.check_is_fitted(self, "selection_")
        scores, limit = self._scores(self._features(X)), self.selection_.threshold
        if groups is not None:
            names, place = np.unique(plain_column("groups", groups), return_inverse=True)
            limits = [self.selection_.for_group(name).threshold for name in names.tolist()]
            limit = np.array(limits)[place]
        elif self.selection_.groups:
            raise ValueError(f"groups is required; known: {', '.join(self.selection_.groups)}")
        positive = self._positive()
        return np.asarray(self.classes_[np.where(scores >= limit, positive, 1 - positive)])

    @property
    def threshold_(self) -> float:
        """The positive class is predicted where its probability is at least this."""
        validation.check_is_fitted(self, "selection_")
        return float(self.selection_.threshold)

    def _know(self, labels: Any) -> None:
        super()._know(labels)
        if len(self.classes_) != 2:
            raise ValueError(
                "Only binary classification is supported: y must have two classes, got "
                f"{len(self.classes_)} class(es): {few(self.classes_)}"
            )

    def _calibrate_on_labels(self, X: Any, labels: Any, rng: np.random.Generator) -> None:
        self._calibrate(X, labels)

    def _calibrate(self, X: Any, labels: NDArray[Any], **options: Any) -> None:
        method = METHODS[validate.choice("method", self.method, METHODS)]
        given = options | {name: getattr(self, name) for name in ("alpha", "promise", "confidence")}
        options = {name: value for name, value in given.items() if value is not None}
        if self.loss == "false_discovery" and self.thresholds is None:
            raise ValueError(
                "thresholds is required for loss 'false_discovery', a rate among the selected, "
                "such as numpy.linspace(0.3, 0.8, 51); got None"
            )
        scores = self._scores(X)
        if self.thresholds is None:
            scores = _lowered(scores)
        scored = ScoredLabels(scores, labels == self.classes_[self._positive()])
        self.selection_ = method(scored, self.thresholds, loss=self.loss, **options)
        if not self.selection_.useful:
            many = f"{len(labels):,} rows: see selection_ for what is stated"
            warn_user(f"no useful promise can be made from {many}", PromiseWarning)

    def _positive(self) -> int:
        """The position of the positive class."""
        if self.pos_label is None:
            return 1
        if self.pos_label not in (known := list(self.classes_.tolist())):
            raise ValueError(f"pos_label must be one of {known}, got {self.pos_label!r}")
        return known.index(self.pos_label)

    def _scores(self, X: Any) -> NDArray[Any]:
        """The probability of the positive class in each row."""
        classes = plain_column("classes_", self.estimator_.classes_).tolist()
        if sorted(classes) != self.classes_.tolist():
            raise ValueError(f"estimator must have the classes {self.classes_}, got {classes}")
        table = np.asarray(self.estimator_.predict_proba(X))
        return table[:, classes.index(self.classes_[self._positive()])]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _lowered(scores: NDArray[Any]) -> Floats:
    """Scores rounded down, so that a threshold among them does not sit on the last bits of one.

    A model may give a row another last bit alone than in a batch. A score reaches a rounded one
    exactly if its own rounded value does, so predictions need no rounding. Simple fractions, which
    many models predict, lie a third of the way up from a rounded value.
    """
    scale = 2.0**40 if scores.dtype.itemsize == 8 else 2.0**16
    return np.maximum(np.floor(scores.astype(np.float64) * scale + 1 / 3) - 1 / 3, 0.0) / scale
