"""Loss models: what an action is expected to cost in its context.

A loss model never carries a guarantee: a policy that is aimed by a wrong one is calibrated like any
other, and earns less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.contexts import length, take
from tether._core.shown import shown
from tether._core.types import Floats
from tether.policies.picker import without_candidates
from tether.policies.ratio import Features, feature_matrix

LossModel: TypeAlias = Callable[[Any, NDArray[Any]], Any]
"""A function of (contexts, actions) that returns one predicted loss per row."""
PAIRS_PER_CALL = 100_000
"""How many pairs of context and action a loss model is asked for at a time."""


class EstimatorLosses:
    """A fitted scikit-learn model on features of context and action, as a loss model.

    A regressor predicts the loss. A classifier predicts which of its classes the loss is, and the
    classes are the losses: their mean under its probabilities is the predicted loss.

    Parameters
    ----------
    estimator : scikit-learn classifier or regressor
        A fitted model.
    features : callable, optional
        A function of (contexts, actions) that returns a matrix or a frame with one row per action.
        By default the columns of the contexts, then those of the actions; a model that was fitted
        on a frame with one more column than the contexts gets the actions in that column.
    """

    def __init__(self, estimator: Any, features: Features | None = None) -> None:
        self.estimator, self.features = estimator, features

    def __repr__(self) -> str:
        return f"EstimatorLosses({shown(self.estimator)})"

    def __call__(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """Predict the loss of each action in its context.

        Parameters
        ----------
        contexts : array, data frame or int
            One row per action, or their number.
        actions : ndarray
            The actions.

        Returns
        -------
        ndarray of float
            One predicted loss per action.
        """
        matrix = self._inputs(contexts, actions)
        if hasattr(self.estimator, "predict_proba"):
            classes = np.asarray(self.estimator.classes_, dtype=np.float64)
            return np.asarray(self.estimator.predict_proba(matrix) @ classes)
        return np.asarray(self.estimator.predict(matrix), dtype=np.float64)

    def _inputs(self, contexts: Any, actions: NDArray[Any]) -> Any:
        """What the model was fitted on: a frame with the actions in a column, or a matrix."""
        if self.features is None:
            names = list(getattr(self.estimator, "feature_names_in_", ()))
            lacking = [name for name in names if name not in getattr(contexts, "columns", names)]
            if hasattr(contexts, "assign") and len(lacking) == 1:
                return contexts.assign(**{str(lacking[0]): actions})[names]
            return feature_matrix(None, contexts, actions)
        made = self.features(contexts, actions)
        if not hasattr(made, "columns"):
            return feature_matrix(lambda *_: made, contexts, actions)
        validate.same_length("the result of features", made, "its actions", len(actions))
        return made


def as_loss_model(name: str, model: Any, features: Features | None = None) -> LossModel:
    """A function of (contexts, actions) as it is, or a fitted scikit-learn model as one."""
    if isinstance(model, type):
        raise TypeError(f"{name} must be a loss model, not a class: write {model.__name__}(…)")
    if hasattr(model, "predict_proba") or hasattr(model, "predict"):
        return EstimatorLosses(model, features)
    if not callable(model):
        raise TypeError(
            f"{name} must be a function of (contexts, actions), or a fitted scikit-learn "
            f"classifier or regressor, got {shown(model)}"
        )
    return model  # type: ignore[no-any-return]


def predict_losses(name: str, model: LossModel, contexts: Any, actions: NDArray[Any]) -> Floats:
    """The predicted loss of each action in its context, checked.

    Where the actions are positions among candidates, the model sees the candidates themselves.
    """
    contexts, actions = without_candidates(contexts, actions)
    predicted = validate.floats(name, np.asarray(model(contexts, actions)), ndim=1)
    if predicted.shape != (len(actions),):
        raise ValueError(
            f"{name} returned {len(predicted)} losses for {len(actions)} actions, expected one each"
        )
    return _finite(name, predicted)


def predict_table(name: str, model: LossModel, contexts: Any, actions: NDArray[Any]) -> Floats:
    """The predicted loss of every action in every context, with one row per context."""
    rows, columns = length(contexts), len(actions)
    table = np.empty((rows, columns))
    step = max(1, PAIRS_PER_CALL // columns)
    for begin in range(0, rows, step):
        count = min(step, rows - begin)
        if hasattr(model, "loss_table"):  # faster, as in `FittedLoss`
            part = take(contexts, np.arange(begin, begin + count))
            table[begin : begin + count] = _finite(name, model.loss_table(part, actions))
            continue
        pairs = take(contexts, np.repeat(np.arange(begin, begin + count), columns))
        flat = predict_losses(name, model, pairs, np.tile(actions, count))
        table[begin : begin + count] = flat.reshape(count, columns)
    return table


def _finite(name: str, predicted: Floats) -> Floats:
    if not np.isfinite(predicted).all():
        flat = predicted.ravel()
        validate.reject(name, flat, ~np.isfinite(flat), "a finite loss")
    return predicted
