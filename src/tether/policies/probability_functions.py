"""Functions of the contexts that return probabilities, scores or a classifier's predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.contexts import ONE_ROW
from tether._core.labelled_tables import by_action
from tether._core.types import Floats
from tether.sampling.discrete import log_softmax

PROBABILITY_SUM_TOLERANCE = 1e-6
"""How far the sum of probabilities may be from 1 before they are refused."""


@dataclass(frozen=True)
class ProbabilityFunction:
    """Log-probabilities from a function of the contexts that returns probabilities."""

    function: Callable[[Any], ArrayLike]

    def __call__(self, contexts: Any, actions: NDArray[Any] | None = None) -> Floats:
        """One row of log-probabilities per context, with one column per action."""
        answer = by_action("the function's result", self.function(contexts), actions)
        return logs_of_probabilities(answer)


@dataclass(frozen=True)
class LogitFunction:
    """Log-probabilities from a function of the contexts that returns unnormalized scores."""

    function: Callable[[Any], ArrayLike]
    temperature: float

    def __call__(self, contexts: Any, actions: NDArray[Any] | None = None) -> Floats:
        """One row of log-probabilities per context, with one column per action."""
        if isinstance(self.function, ClassifierLogits):
            return logs_of_logits(self.function(contexts, actions), self.temperature)
        answer = by_action("the function's result", self.function(contexts), actions)
        return logs_of_logits(answer, self.temperature)


@dataclass(frozen=True)
class ClassifierLogits:
    """The logs of the probabilities that a fitted classifier predicts."""

    classifier: Any

    def __call__(self, contexts: Any, actions: NDArray[Any] | None = None) -> Floats:
        """One row of log-probabilities per context, with one column per class, or per action.

        An action that the classifier does not know has probability 0.
        """
        names = getattr(self.classifier, "feature_names_in_", None)
        if names is not None and hasattr(contexts, "columns"):
            columns = list(contexts.columns)
            if list(names) != columns and set(names) <= set(columns):
                contexts = contexts[list(names)]  # a rule may need more columns than the model
        elif names is not None and set(names) <= set(getattr(contexts, "index", ())):
            raise ValueError(
                f"contexts is one row of a frame, with the features {list(names)[:3]} as its index"
                f"{ONE_ROW}"
            )
        with np.errstate(divide="ignore"):
            logs = np.log(np.asarray(self.classifier.predict_proba(contexts), dtype=np.float64))
        classes = np.asarray(self.classifier.classes_)
        if actions is None or np.array_equal(classes, actions):
            return logs
        place = {action: column for column, action in enumerate(actions.tolist())}
        table = np.full((len(logs), len(actions)), -np.inf)
        table[:, [place[each] for each in classes.tolist()]] = logs
        return table


def no_probabilities_hint(model: Any) -> str:
    """What gives probabilities to a classifier without them; empty for anything else."""
    if hasattr(model, "predict_proba") or not hasattr(model, "predict"):
        return ""
    tags = getattr(model, "__sklearn_tags__", None)
    kind = getattr(tags(), "estimator_type", None) if tags is not None else None
    if kind != "classifier" and not hasattr(model, "classes_"):
        return ""
    return (
        ": it predicts a class, and has no predict_proba. Wrap it in "
        "sklearn.calibration.CalibratedClassifierCV, which gives it one"
    )


def logs_of_probabilities(values: ArrayLike) -> Floats:
    """The logs of probabilities that sum to 1 in each row; a vector or a table."""
    shape = np.shape(np.asarray(values))
    if len(shape) not in (1, 2):
        raise ValueError(f"probabilities must be a vector or a table, got shape {shape}")
    array = validate.floats("probabilities", values, ndim=len(shape))
    if not (array >= 0).all():
        validate.reject("probabilities", array, ~(array >= 0), "a probability of at least 0")
    total = array.sum(axis=-1)
    if not (np.abs(total - 1) <= PROBABILITY_SUM_TOLERANCE).all():
        worst = total.flat[int(np.argmax(np.abs(total - 1)))]
        hint = ""
        if len(shape) == 2:
            hint = (
                "; if these are predictions for each action, write 1 for the best and 0 for others"
            )
        raise ValueError(f"probabilities must sum to 1, got a sum of {worst:.6g}{hint}")
    with np.errstate(divide="ignore"):
        return np.log(array)


def logs_of_logits(values: ArrayLike, temperature: float) -> Floats:
    """The log-probabilities of unnormalized scores; a vector or a table."""
    array = validate.floats("logits", values, ndim=np.ndim(values) or 1)
    if not array.max() < np.inf:
        validate.reject("logits", array, ~(array < np.inf), "a score below +inf")
    row_maxima = array.max(axis=-1)
    if row_maxima.min() == -np.inf:
        where = "" if array.ndim == 1 else f" in row {int(np.argmin(row_maxima))}"
        raise ValueError(f"logits rule out every action{where}: all are -inf")
    return log_softmax(array, temperature)
