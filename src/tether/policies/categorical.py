"""Categorical policies: finitely many actions, each with a probability in every context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.contexts import as_contexts, length
from tether._core.labelled_tables import by_action, labels_of
from tether._core.plain_arrays import plain_array, plain_column
from tether._core.shown import few
from tether._core.types import Actions, Contexts, Floats
from tether.policies.probability_functions import (
    PROBABILITY_SUM_TOLERANCE,
    ClassifierLogits,
    LogitFunction,
    ProbabilityFunction,
    logs_of_logits,
    logs_of_probabilities,
    no_probabilities_hint,
)
from tether.policies.table_policy import TablePolicy


class Categorical(TablePolicy):
    """A distribution over finitely many actions, from a table or a function of the contexts.

    Given a vector, the distribution is the same in every context. Given a table, contexts are its
    row numbers. Given a function, contexts are its argument, and it returns one row per context.

    Parameters
    ----------
    log_probabilities : array-like or callable
        Log-probabilities: a vector, a table, or a function of the contexts that returns a table.
    actions : array-like, optional
        The actions of the columns, all numbers or all strings; if omitted, the column names of a
        frame, else 0, 1, 2, …. Required beside a function. The columns of a frame are matched with
        the actions by name.

    Raises
    ------
    ValueError
        If the probabilities do not sum to 1, the actions are not distinct or do not match them, or
        a frame has columns of other names.
    TypeError
        If the actions are neither all numbers nor all strings.

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
        self._function: Callable[[Any], ArrayLike] | None = None
        if callable(log_probabilities):
            if actions is None:
                raise ValueError("actions is required beside a function: the names of its columns")
            self._function = log_probabilities
        else:
            actions = labels_of(log_probabilities) if actions is None else actions
            ordered = by_action("log_probabilities", log_probabilities, actions)
            self._table = check_normalized("log_probabilities", ordered)
            actions = np.arange(self._table.shape[-1]) if actions is None else actions
        self.actions = _check_distinct(actions)
        if self._function is None and self._table.shape[-1] != len(self.actions):
            raise ValueError(
                f"actions has {len(self.actions)} names but there are "
                f"{self._table.shape[-1]} probabilities"
            )

    def __repr__(self) -> str:
        by = "a function of the contexts"
        if self._function is None:
            by = "one row for all contexts" if self._table.ndim == 1 else f"{len(self._table)} rows"
        return f"{type(self).__name__}({few(self.actions)}, by {by})"

    @classmethod
    def from_probabilities(
        cls,
        probabilities: ArrayLike | Callable[[Any], ArrayLike],
        actions: Actions | None = None,
    ) -> Self:
        """Build the policy from probabilities.

        Parameters
        ----------
        probabilities : array-like or callable
            A vector, a table, or a function of the contexts that returns a table.
        actions : array-like, optional
            The actions of the columns.

        Returns
        -------
        Categorical
            The policy with these probabilities.

        Raises
        ------
        ValueError
            If a probability is negative or NaN, or they do not sum to 1.
        """
        if callable(probabilities):
            return cls(ProbabilityFunction(probabilities), actions)
        actions = labels_of(probabilities) if actions is None else actions
        ordered = by_action("probabilities", probabilities, actions)
        return cls(logs_of_probabilities(ordered), actions)

    @classmethod
    def from_logits(
        cls,
        logits: ArrayLike | Callable[[Any], ArrayLike],
        actions: Actions | None = None,
        *,
        temperature: float = 1.0,
    ) -> Self:
        """Build the policy from unnormalized scores.

        Parameters
        ----------
        logits : array-like or callable
            Scores: a vector, a table, or a function of the contexts that returns a table. A score
            of −inf excludes an action.
        actions : array-like, optional
            The actions of the columns.
        temperature : float, default 1.0
            A temperature below 1 sharpens the distribution, above 1 flattens it.

        Returns
        -------
        Categorical
            The policy with probabilities proportional to e^(logit / temperature).

        Raises
        ------
        ValueError
            If a score is NaN or +inf, every score of a row is −inf, or the temperature is not
            above 0.
        """
        temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        if callable(logits):
            return cls(LogitFunction(logits, temperature), actions)
        actions = labels_of(logits) if actions is None else actions
        ordered = by_action("logits", logits, actions)
        return cls(logs_of_logits(ordered, temperature), actions)

    @classmethod
    def from_classifier(
        cls, classifier: Any, actions: Actions | None = None, *, temperature: float = 1.0
    ) -> Self:
        """Turn a fitted scikit-learn classifier into a policy whose actions are its classes.

        The policy takes each action with the probability that the classifier predicts for it, at
        temperature 1.

        Parameters
        ----------
        classifier : scikit-learn classifier
            A fitted classifier with `predict_proba` and `classes_`.
        actions : array-like, optional
            All actions, if the classifier does not know some of them, such as those that no row of
            its training data had: it takes them with probability 0. By default its classes.
        temperature : float, default 1.0
            A temperature below 1 sharpens the distribution, above 1 flattens it.

        Returns
        -------
        Categorical
            The policy; its contexts are the features of the classifier.

        Raises
        ------
        TypeError
            If the classifier is not fitted or has no `predict_proba`.
        ValueError
            If one of its classes is not among `actions`.
        """
        if not hasattr(classifier, "predict_proba") or not hasattr(classifier, "classes_"):
            raise TypeError(
                f"classifier must be fitted and have predict_proba, got {classifier!r}"
                f"{no_probabilities_hint(classifier)}"
            )
        logits = ClassifierLogits(classifier)
        classes = _check_distinct(classifier.classes_)
        listed = classes if actions is None else _check_distinct(actions)
        unknown = set(classes.tolist()) - set(listed.tolist())
        if unknown:
            raise ValueError(
                f"actions must have all classes of the classifier, and lacks {len(unknown)} of "
                f"{len(classes)}, such as {min(unknown)!r}"
            )
        return cls.from_logits(logits, listed, temperature=temperature)

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Compute the log-probability of every action in each context.

        Parameters
        ----------
        contexts : array-like or int
            Row numbers of the table, the argument of the function, or, for a vector, anything.

        Returns
        -------
        ndarray of shape (contexts, actions) or (1, actions)
            One row per context; a single row for a policy given by a vector.

        Raises
        ------
        ValueError
            If contexts are not row numbers of the table, or the function returns another shape.
        """
        checked: Any = as_contexts(contexts)
        if self._function is not None:
            labelled = isinstance(self._function, (ProbabilityFunction, LogitFunction))
            answer = self._function(checked, *([self.actions] if labelled else []))
            ordered = by_action("the function's result", answer, self.actions)
            table = check_normalized("the function's result", ordered, ndim=2)
            if table.shape != (length(checked), len(self.actions)):
                raise ValueError(
                    f"the function returned shape {table.shape}, expected "
                    f"{(length(checked), len(self.actions))}"
                )
            return table
        if self._table.ndim == 1:
            return self._table[None]
        rows = None if isinstance(checked, int) else plain_array(checked)
        if rows is None or rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise ValueError(
                "contexts must be row numbers of the table of probabilities, got "
                f"{checked if rows is None else f'shape {rows.shape} of dtype {rows.dtype}'}"
            )
        if rows.min() < 0 or rows.max() >= len(self._table):
            raise ValueError(
                f"contexts must be row numbers from 0 to {len(self._table) - 1}, got "
                f"{rows.min()} to {rows.max()}"
            )
        return np.asarray(self._table.take(rows, axis=0))


def _check_distinct(actions: Any) -> NDArray[Any]:
    array = plain_column("actions", actions)
    if array.dtype.kind == "O":
        raise TypeError(f"actions must be all numbers or all strings, got {actions!r}")
    if array.ndim != 1 or len(array) == 0 or len(np.unique(array)) != len(array):
        raise ValueError(f"actions must be distinct names in one dimension, got {actions!r}")
    return validate.frozen(array)


def check_normalized(name: str, values: ArrayLike, ndim: int | None = None) -> Floats:
    """Log-probabilities that sum to 1 in each row; a vector or a table."""
    array = np.asarray(values)
    if array.ndim not in ((1, 2) if ndim is None else (ndim,)):
        raise ValueError(f"{name} must be a vector or a table, got shape {array.shape}")
    table = validate.log_probabilities(name, array, ndim=array.ndim, zero=True)
    total = np.exp(table).sum(axis=-1)
    if not (np.abs(total - 1) <= PROBABILITY_SUM_TOLERANCE).all():
        worst = total.flat[int(np.argmax(np.abs(total - 1)))]
        hint = ""
        if name == "log_probabilities" and (table >= 0).all():
            hint = ": for probabilities use Categorical.from_probabilities"
        raise ValueError(f"{name} has probabilities that sum to {worst:.6g}, not to 1{hint}")
    return table
