"""Loss models: what an action is expected to cost in its context. They carry no guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import Contexts, Floats, shown
from tether._core.contexts import as_contexts, length, take
from tether.policies.policy import FinitePolicy
from tether.policies.ratio import Features, feature_matrix
from tether.policies.shortlist import ShortlistRows, without_candidates

LossModel: TypeAlias = Callable[[Any, NDArray[Any]], Any]
"""A function of (contexts, actions) that returns one predicted loss per row."""
PAIRS_PER_CALL = 100_000
"""How many pairs of context and action a loss model predicts in one call."""


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
        if not hasattr(estimator, "predict"):
            raise TypeError(f"estimator must be a fitted model, got {shown(estimator)}")
        self.estimator, self.features = estimator, features

    def __call__(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """Predict the loss of each action in its context."""
        names = list(getattr(self.estimator, "feature_names_in_", ()))
        lacking = [name for name in names if name not in getattr(contexts, "columns", names)]
        if self.features is not None:
            matrix = self.features(contexts, actions)
        elif hasattr(contexts, "assign") and len(lacking) == 1:
            matrix = contexts.assign(**{str(lacking[0]): actions})[names]
        else:
            matrix = feature_matrix(None, contexts, actions)
        if hasattr(self.estimator, "predict_proba"):
            classes = np.asarray(self.estimator.classes_, dtype=np.float64)
            return np.asarray(self.estimator.predict_proba(matrix) @ classes)
        return np.asarray(self.estimator.predict(matrix), dtype=np.float64)


def as_loss_model(name: str, model: Any, features: Features | None = None) -> LossModel:
    """A loss model as a function of (contexts, actions); wraps a fitted scikit-learn model."""
    if hasattr(model, "predict") and not isinstance(model, type):
        return EstimatorLosses(model, features)
    if isinstance(model, type) or not callable(model):
        raise TypeError(
            f"{name} must be a function of (contexts, actions), or a fitted scikit-learn "
            f"classifier or regressor, got {shown(model)}"
        )
    return model  # type: ignore[no-any-return]


def predict_losses(name: str, model: LossModel, contexts: Any, actions: NDArray[Any]) -> Floats:
    """The predicted loss of each action in its context; a position stands for its candidate."""
    contexts, actions = without_candidates(contexts, actions)
    answer = np.asarray(model(contexts, actions))
    predicted = validate.floats(name, answer, meaning="loss", finite=True)
    validate.same_length(name, predicted, "its actions", len(actions))
    return predicted


def predict_table(name: str, model: LossModel, contexts: Any, actions: NDArray[Any]) -> Floats:
    """The predicted loss of every action in every context, with one row per context."""
    rows, columns = length(contexts), len(actions)
    table = np.empty((rows, columns))
    step = max(1, PAIRS_PER_CALL // columns)
    for begin in range(0, rows, step):
        count = min(step, rows - begin)
        pairs = take(contexts, np.repeat(np.arange(begin, begin + count), columns))
        flat = predict_losses(name, model, pairs, np.tile(actions, count))
        table[begin : begin + count] = flat.reshape(count, columns)
    return table


def policy_tables(
    policy: FinitePolicy, models: Mapping[str, LossModel], contexts: Contexts
) -> tuple[Floats, Floats]:
    """Log-probabilities (contexts × actions) and predicted losses (losses × contexts × actions)."""
    checked = as_contexts(contexts)
    table = policy_calls.table("policy", policy, checked)
    checked = len(table) if isinstance(checked, int) else checked
    listed = models.values()
    predicted = np.array([predict_table("loss_model", m, checked, policy.actions) for m in listed])
    return np.broadcast_to(table, predicted.shape[1:]), predicted


def candidate_losses(models: Mapping[str, LossModel], rows: ShortlistRows) -> Floats:
    """The predicted losses of every candidate, of shape (losses, rows, N)."""
    contexts, actions = rows.pairs()
    found = [predict_losses("loss_model", each, contexts, actions) for each in models.values()]
    return np.reshape(found, (len(models), len(rows), rows.size))
