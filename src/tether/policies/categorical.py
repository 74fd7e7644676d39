"""Categorical policies: finitely many actions, each with a probability in every context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.arrays import Actions, Contexts, Floats, few, plain_array, plain_column, shown
from tether._core.contexts import as_contexts, by_action, labels_of, length
from tether.policies.policy import (
    OUTCOMES,
    TO_PREDICT_PROBABILITIES,
    TablePolicy,
    positions,
)
from tether.sampling.samplers import log_softmax

PROBABILITY_SUM_TOLERANCE = 1e-6
"""How far the sum of probabilities may be from 1 before they are refused."""
RESULT = "the function's result"


class Categorical(TablePolicy):
    """A distribution over finitely many actions, from a table or a function of the contexts.

    A vector is the same in every context; contexts are the row numbers of a table, or the argument
    of a function that returns one row for each.

    Parameters
    ----------
    log_probabilities : array-like or callable
        Log-probabilities: a vector, a table, or a function of the contexts that returns a table.
    actions : array-like, optional
        The actions of the columns, all numbers or all strings; if omitted, the column names of a
        frame, else 0, 1, 2, …. Required beside a function. The columns of a frame are matched with
        the actions by name.

    Examples
    --------
    >>> policy = Categorical.from_probabilities([[0.9, 0.1], [0.2, 0.8]], actions=["wait", "act"])
    >>> np.exp(policy.log_prob([0, 1], ["act", "act"])).round(3)
    array([0.1, 0.8])
    """

    def __init__(
        self,
        log_probabilities: ArrayLike | Callable[[Any], ArrayLike],
        actions: Actions | None = None,
    ) -> None:
        self._make("log_probabilities", log_probabilities, actions)

    def _make(self, holds: str, values: Any, actions: Any, temperature: float = 1.0) -> Self:
        self._function: Callable[..., Any] | None = None
        if callable(values):
            if actions is None:
                raise ValueError("actions is required beside a function: the names of its columns")
            self.actions = _check_distinct(actions)
            known = isinstance(values, TableFunction)
            made_of = (values, holds, temperature, self.actions)
            self._function = values if known else TableFunction(*made_of)
            return self
        actions = labels_of(values) if actions is None else actions
        self._table = log_table(holds, by_action(holds, values, actions), holds, temperature)
        size = self._table.shape[-1]
        self.actions = _check_distinct(np.arange(size) if actions is None else actions)
        if size != len(self.actions):
            raise ValueError(
                f"actions has {len(self.actions)} names but there are {size} probabilities"
            )
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({few(self.actions)})"

    @classmethod
    def from_probabilities(
        cls, probabilities: ArrayLike | Callable[[Any], ArrayLike], actions: Actions | None = None
    ) -> Self:
        """Build the policy from probabilities that sum to 1, or a rule: a function that acts."""
        if getattr(probabilities, "__name__", "") == "predict_proba":
            return cls.from_classifier(getattr(probabilities, "__self__", None), actions)
        return cls.__new__(cls)._make("probabilities", probabilities, actions)

    @classmethod
    def from_logits(
        cls,
        logits: ArrayLike | Callable[[Any], ArrayLike],
        actions: Actions | None = None,
        *,
        temperature: float = 1.0,
    ) -> Self:
        """Build the policy with probabilities proportional to e^(logit / temperature).

        Logits are a vector, a table, or a function of the contexts that returns a table; −inf
        excludes an action. A temperature below 1 sharpens the distribution, above 1 flattens it.
        """
        temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        return cls.__new__(cls)._make("logits", logits, actions, temperature)

    @classmethod
    def from_classifier(
        cls, classifier: Any, actions: Actions | None = None, *, temperature: float = 1.0
    ) -> Self:
        """Turn a fitted scikit-learn classifier into a policy whose actions are its classes.

        At temperature 1 it takes each action with the probability that the classifier predicts.
        `actions` lists all of them if no row of its training data had some: these have probability
        0. Contexts are the features of the classifier.
        """
        if not hasattr(classifier, "predict_proba") or not hasattr(classifier, "classes_"):
            raise TypeError(
                f"classifier must be fitted and have predict_proba, got {classifier!r}; "
                f"{TO_PREDICT_PROBABILITIES}"
            )
        classes = _check_distinct(classifier.classes_)
        listed = classes if actions is None else _check_distinct(actions)
        unknown = set(classes.tolist()) - set(listed.tolist())
        if unknown:
            raise ValueError(
                f"actions must include every class of the classifier, but lacks {len(unknown)} of "
                f"{len(classes)}, such as {min(unknown)!r}. {OUTCOMES}"
            )
        logits = ClassifierLogits(classifier, listed)
        return cls.from_logits(logits, listed, temperature=temperature)

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """The log-probability of every action in each context; one row if given by a vector."""
        checked: Any = as_contexts(contexts)
        if self._function is not None:
            table: Floats = self._function(checked)
            return table
        if self._table.ndim == 1:
            return self._table[None]
        rows = plain_array(checked)
        numbers = rows.ndim == 1 and rows.dtype.kind in "iu"
        if not numbers or rows.min() < 0 or rows.max() >= len(self._table):
            raise ValueError(
                f"contexts must be row numbers from 0 to {len(self._table) - 1}, those of the "
                f"table of probabilities, got {shown(checked)}"
            )
        return np.asarray(self._table.take(rows, axis=0))


class Pool(Categorical):
    """Pick candidate i of a pool with probability proportional to e^(score_i / temperature).

    Actions are positions in the pool, and contexts are only counted: this is one marginal
    distribution, as in active learning and Bayesian optimization.

    Parameters
    ----------
    scores : array-like of float
        One score per candidate; −inf excludes a candidate.
    temperature : float, default 1.0
        A temperature below 1 sharpens the distribution, above 1 flattens it.

    Examples
    --------
    >>> Pool([0.0, 1.0, 2.0], temperature=0.5).sample(5, np.random.default_rng(0))
    array([2, 2, 1, 1, 2])
    """

    def __init__(self, scores: ArrayLike, temperature: float = 1.0) -> None:
        temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        self._make("scores", validate.floats("scores", scores), None, temperature)

    @staticmethod
    def uniform(size: int) -> Pool:
        """Build the uniform distribution over a pool of `size` candidates."""
        return Pool(np.zeros(validate.integer("size", size)))


@dataclass(frozen=True)
class TableFunction:
    """Log-probabilities from a function of the contexts; `holds` says what it returns."""

    function: Callable[[Any], Any]
    holds: str
    temperature: float
    actions: NDArray[Any]
    """The actions in the order of the function's columns."""
    may_be_unnamed: bool = True
    """Whether columns without names are accepted; a table with names is put in order by them."""

    def __call__(self, contexts: Any) -> Floats:
        """One row of log-probabilities per context, with one column for each of the actions."""
        answer = self.function(contexts)
        if self.holds == "probabilities" and np.ndim(answer) == 1:  # a rule
            answer = np.eye(len(self.actions))[positions(self.actions, answer)]
        elif not self.may_be_unnamed and labels_of(answer) is None:
            raise ValueError(
                f"the function returned probabilities of {np.shape(answer)[-1]} actions without "
                f"their names, and the table has the actions {few(self.actions)}: pass actions=, "
                f"all of them in the order of these columns, or return a frame with named columns"
            )
        answer = by_action(RESULT, answer, self.actions)
        table = log_table(RESULT, answer, self.holds, self.temperature)
        expected = length(contexts), len(self.actions)
        if table.shape != expected:
            raise ValueError(f"the function returned shape {table.shape}, expected {expected}")
        return table


@dataclass(frozen=True, eq=False)
class ClassifierLogits:
    """The logs of the probabilities that a fitted classifier predicts, by action."""

    classifier: Any
    actions: NDArray[Any]

    def __call__(self, contexts: Any) -> Floats:
        """One row per context, one column per action; actions that are not classes have 0."""
        names = getattr(self.classifier, "feature_names_in_", None)
        if names is not None and hasattr(contexts, "columns"):
            columns = list(contexts.columns)
            if list(names) != columns and set(names) <= set(columns):
                contexts = contexts[list(names)]  # a rule may need more columns than the model
        with np.errstate(divide="ignore"):
            logs = np.log(np.asarray(self.classifier.predict_proba(contexts), dtype=np.float64))
        table = np.full((len(logs), len(self.actions)), -np.inf)
        table[:, positions(self.actions, np.asarray(self.classifier.classes_))] = logs
        return table


def log_table(name: str, values: Any, holds: str, temperature: float = 1.0) -> Floats:
    """Log-probabilities from a vector or a table of them, of probabilities or of logits."""
    ndim, hint = np.ndim(values), ""
    if ndim not in (1, 2):
        raise ValueError(f"{name} must be a vector or a table, got shape {np.shape(values)}")
    if holds == "probabilities":
        probabilities = validate.floats(name, values, ndim=ndim)
        if not (probabilities >= 0).all():
            bad = ~(probabilities >= 0)
            validate.reject(name, probabilities, bad, "a probability of at least 0")
        with np.errstate(divide="ignore"):
            table = np.log(probabilities)
        if ndim == 2:
            hint = "; if they are predicted outcomes, pass 1 for the best action and 0 for the rest"
    else:
        table = validate.log_probabilities(name, values, ndim=ndim, zero=True)
        if holds != "log_probabilities":  # logits or scores, of which only differences count
            top = np.atleast_1d(table.max(axis=-1))
            if top.min() == -np.inf:
                row = int(np.argmin(top))
                raise ValueError(f"{name} rule out every action in row {row}: all are -inf")
            return log_softmax(table, temperature)
        probabilities = np.exp(table)
        if (table >= 0).all():
            hint = ": for probabilities use Categorical.from_probabilities"
    total = np.atleast_1d(probabilities.sum(axis=-1))
    worst = total[int(np.argmax(np.abs(total - 1)))]
    if not abs(worst - 1) <= PROBABILITY_SUM_TOLERANCE:
        raise ValueError(
            f"{name} must have probabilities that sum to 1, got a sum of {worst:.6g}{hint}"
        )
    return table


def _check_distinct(actions: Any) -> NDArray[Any]:
    array = plain_column("actions", actions)
    if array.dtype.kind == "O":
        raise TypeError(f"actions must be all numbers or all strings, got {actions!r}")
    if array.ndim != 1 or len(array) == 0 or len(np.unique(array)) != len(array):
        raise ValueError(f"actions must be distinct names in one dimension, got {actions!r}")
    return validate.frozen(array)
