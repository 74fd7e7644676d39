"""Categorical policies: finitely many actions, each with a probability in every context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, length
from tether._core.types import Floats
from tether.sampling.discrete import log_softmax, sample_categorical

SLACK = 1e-6
"""How far probabilities may be from summing to one before they are refused."""


class Categorical:
    """One of finitely many actions, by a table of log-probabilities or a function that returns one.

    Of a vector, every context is alike. Of a table, contexts are row numbers. Of a function, the
    contexts are what it takes, and it returns a row for each. `actions` names the columns.

    >>> policy = Categorical.from_probabilities([[0.9, 0.1], [0.2, 0.8]], actions=["wait", "act"])
    >>> np.exp(policy.log_prob([0, 1], ["act", "act"])).round(3)
    array([0.1, 0.8])
    """

    def __init__(self, log_probabilities: Any, actions: Any = None) -> None:
        self._function: Callable[[Any], Any] | None = None
        if callable(log_probabilities):
            if actions is None:
                raise ValueError("actions is needed beside a function: the names of its columns")
            self._function = log_probabilities
        else:
            self._table = _normalized("log_probabilities", log_probabilities)
            actions = np.arange(self._table.shape[-1]) if actions is None else actions
        self.actions = _distinct(actions)
        if self._function is None and self._table.shape[-1] != len(self.actions):
            raise ValueError(
                f"actions has {len(self.actions)} names but there are "
                f"{self._table.shape[-1]} probabilities"
            )

    @classmethod
    def from_probabilities(cls, probabilities: Any, actions: Any = None) -> Self:
        """From probabilities: a vector, a table, or a function of the contexts."""

        def logs(values: Any) -> Floats:
            array = validate.floats("probabilities", values, ndim=np.ndim(np.asarray(values)))
            if not (array >= 0).all():
                validate.reject(
                    "probabilities", array, ~(array >= 0), "a probability of at least 0"
                )
            with np.errstate(divide="ignore"):
                return np.log(array)

        return cls(_through(probabilities, logs), actions)

    @classmethod
    def from_logits(cls, logits: Any, actions: Any = None, *, temperature: float = 1.0) -> Self:
        """From unnormalized scores; a temperature below 1 sharpens them, above 1 it flattens."""
        temperature = validate.number("temperature", temperature, above=0, below=np.inf)

        def logs(values: Any) -> Floats:
            array = validate.floats("logits", values, ndim=np.ndim(values) or 1)
            if not array.max() < np.inf:
                validate.reject("logits", array, ~(array < np.inf), "a score below +inf")
            top = array.max(axis=-1)
            if top.min() == -np.inf:
                where = "" if array.ndim == 1 else f" in row {int(np.argmin(top))}"
                raise ValueError(f"logits rule out every action{where}: all are -inf")
            return log_softmax(array, temperature)

        return cls(_through(logits, logs), actions)

    @classmethod
    def from_classifier(cls, classifier: Any, *, temperature: float = 1.0) -> Self:
        """A fitted scikit-learn classifier as a policy: its classes are the actions.

        Takes an action as often as the classifier thinks it right; the temperature changes that.
        """
        if not hasattr(classifier, "predict_proba") or not hasattr(classifier, "classes_"):
            raise TypeError(f"classifier must be fitted and have predict_proba, got {classifier!r}")

        def logits(contexts: Any) -> Floats:
            with np.errstate(divide="ignore"):
                return np.log(np.asarray(classifier.predict_proba(contexts), dtype=np.float64))

        return cls.from_logits(logits, classifier.classes_, temperature=temperature)

    def log_prob_all(self, contexts: Any) -> Floats:
        """The log-probability of every action in each context."""
        contexts = as_contexts(contexts)
        if self._function is not None:
            table = _normalized("the function's result", self._function(contexts), ndim=2)
            if table.shape != (length(contexts), len(self.actions)):
                raise ValueError(
                    f"the function returned shape {table.shape}, expected "
                    f"{(length(contexts), len(self.actions))}"
                )
            return table
        if self._table.ndim == 1:
            return self._table[None]
        if isinstance(contexts, int) or contexts.ndim != 1 or contexts.dtype.kind not in "iu":
            raise ValueError("contexts must be row numbers of the table of probabilities")
        if contexts.min() < 0 or contexts.max() >= len(self._table):
            raise ValueError(
                f"contexts must be row numbers from 0 to {len(self._table) - 1}, got "
                f"{contexts.min()} to {contexts.max()}"
            )
        return np.asarray(self._table.take(contexts, axis=0))

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-probability of each action in its context."""
        place = positions(self.actions, actions)
        table = self.log_prob_all(as_contexts(contexts, place))
        return picked(table, place)

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """One action in each context."""
        policy_calls.generator(rng)
        contexts = as_contexts(contexts)
        return self.actions[sample_categorical(self.log_prob_all(contexts), length(contexts), rng)]


def positions(known: NDArray[Any], actions: Any) -> NDArray[np.int64]:
    """Where each action stands among the known ones."""
    actions = np.asarray(actions)
    if actions.ndim != 1:
        raise ValueError(f"actions must have 1 dimension, got shape {actions.shape}")
    order = np.argsort(known, kind="stable")
    try:
        place = order[np.minimum(np.searchsorted(known, actions, sorter=order), len(known) - 1)]
    except TypeError as error:
        shown = ", ".join(map(repr, known[:5].tolist()))
        raise TypeError(f"actions must be among {shown}, got {actions[:5].tolist()}") from error
    lost = known[place] != actions
    if lost.any():
        first = int(np.argmax(lost))
        shown = ", ".join(map(repr, known[:5].tolist())) + (", …" if len(known) > 5 else "")
        raise ValueError(f"actions[{first}] is {actions[first]!r}: expected one of {shown}")
    return np.asarray(place, dtype=np.int64)


def picked(table: Floats, place: NDArray[np.int64]) -> Floats:
    """One column of each row; a single row serves them all."""
    return np.asarray(table[0][place] if len(table) == 1 else table[np.arange(len(place)), place])


def _through(values: Any, change: Callable[[Any], Floats]) -> Any:
    return (lambda contexts: change(values(contexts))) if callable(values) else change(values)


def _distinct(actions: Any) -> NDArray[Any]:
    array = np.asarray(actions)
    alike = array.dtype.kind != "O" and (
        array.dtype.kind not in "US" or all(isinstance(each, (str, bytes)) for each in actions)
    )
    if not alike:
        raise TypeError(f"actions must be all numbers or all strings, got {actions!r}")
    if array.ndim != 1 or len(array) == 0 or len(np.unique(array)) != len(array):
        raise ValueError(f"actions must be distinct names in one dimension, got {actions!r}")
    return validate.frozen(array)


def _normalized(name: str, values: Any, ndim: int | None = None) -> Floats:
    array = np.asarray(values)
    if array.ndim not in ((1, 2) if ndim is None else (ndim,)):
        raise ValueError(f"{name} must be a vector or a table, got shape {array.shape}")
    table = validate.log_probabilities(name, array, ndim=array.ndim, zero=True)
    total = np.exp(table).sum(axis=-1)
    if not (np.abs(total - 1) <= SLACK).all():
        worst = total.flat[int(np.argmax(np.abs(total - 1)))]
        raise ValueError(f"{name} has probabilities that sum to {worst:.6g}, not to 1")
    return table
