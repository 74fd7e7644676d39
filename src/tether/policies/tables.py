"""Policies over finitely many actions that are given by a table, and pools of candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.contexts import as_contexts, length
from tether._core.plain_arrays import plain_column
from tether._core.shown import few
from tether._core.types import Actions, Contexts, Floats, Integers
from tether.policies.policy import TO_KNOW_MORE_ACTIONS
from tether.sampling.discrete import log_softmax, sample_categorical


class TablePolicy(ABC):
    """Scores and draws from `log_prob_all`, which a subclass defines."""

    actions: NDArray[Any]
    """Every action."""

    @abstractmethod
    def log_prob_all(self, contexts: Contexts) -> Floats:
        """The log-probability of every action in each context; one row if all are alike."""

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """The log-probability of each action in its context."""
        columns = positions(self.actions, actions)
        return picked(self.log_prob_all(as_contexts(contexts, columns)), columns)

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """One action per context."""
        validate.generator("rng", rng)
        checked = as_contexts(contexts)
        columns = sample_categorical(self.log_prob_all(checked), length(checked), rng)
        return np.asarray(self.actions[columns])


class Pool(TablePolicy):
    """Pick candidate i of a pool with probability proportional to e^(score_i / temperature).

    Actions are positions in the pool, and contexts are only counted: this is one marginal
    distribution, as in active learning and Bayesian optimization.

    Parameters
    ----------
    scores : array-like of float
        One score per candidate; −inf excludes a candidate.
    temperature : float, default 1.0
        A temperature below 1 sharpens the distribution, above 1 flattens it.

    Raises
    ------
    ValueError
        If a score is NaN or +inf, every score is −inf, or the temperature is not above 0.

    Examples
    --------
    >>> Pool([0.0, 1.0, 2.0], temperature=0.5).sample(5, np.random.default_rng(0))
    array([2, 2, 1, 1, 2])
    """

    def __init__(self, scores: ArrayLike, temperature: float = 1.0) -> None:
        values = validate.floats("scores", scores)
        if not values.max() < np.inf:
            validate.reject("scores", values, ~(values < np.inf), "a score below +inf")
        if values.max() == -np.inf:
            raise ValueError("scores rule out every candidate: all are -inf")
        temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        self._table = validate.frozen(log_softmax(values, temperature)[None])
        self.actions = validate.frozen(np.arange(len(values)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.actions)} candidates)"

    @staticmethod
    def uniform(size: int) -> Pool:
        """Build the uniform distribution over a pool of `size` candidates."""
        return Pool(np.zeros(validate.integer_at_least("size", size)))

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """The log-probability of every candidate: a single row, valid in every context."""
        as_contexts(contexts)
        return self._table


class UnknownActionsError(ValueError):
    """Actions that are not among those of a policy, which `name` names in a log."""

    def __init__(self, known: NDArray[Any], actions: NDArray[Any], name: str | None = None) -> None:
        self.known, self.actions = known, actions
        unknown = ~np.isin(actions, known)
        first = int(np.argmax(unknown))
        listed = ", ".join(map(repr, known[:5].tolist())) + (", …" if len(known) > 5 else "")
        message = (
            f"actions[{first}] is {actions[first].item()!r}: expected one of {listed}"
            f"{outcome_hint(known, actions)}"
        )
        if name is not None:
            lacking = np.unique(actions[unknown])
            message += (
                f", which are all {len(known)} actions of the {name} policy. It lacks "
                f"{few(lacking)}, in {int(unknown.sum()):,} of {len(actions):,} rows"
            )
            written = {each.strip().casefold() for each in known.astype(str).tolist()}
            if any(each.strip().casefold() in written for each in lacking.astype(str).tolist()):
                message += ". Some differ by upper and lower case or spaces only: write them alike"
            message += f". {TO_KNOW_MORE_ACTIONS}"
        super().__init__(message)


def positions(known: NDArray[Any], actions: Actions, name: str | None = None) -> Integers:
    """The position of each action among the known ones; an unknown action is an error."""
    actions = plain_column("actions", actions)
    if actions.ndim != 1:
        raise ValueError(f"actions must have 1 dimension, got shape {actions.shape}")
    order = np.argsort(known, kind="stable")
    try:
        found = order[np.minimum(np.searchsorted(known, actions, sorter=order), len(known) - 1)]
    except TypeError as error:
        raise TypeError(
            f"actions must be among {', '.join(map(repr, known[:5].tolist()))}, got "
            f"{actions[:5].tolist()}{outcome_hint(known, actions)}"
        ) from error
    if (known[found] != actions).any():
        raise UnknownActionsError(known, actions, name)
    return np.asarray(found, dtype=np.int64)


def outcome_hint(known: NDArray[Any], actions: NDArray[Any]) -> str:
    """Whether a model of an outcome, yes or no, was taken for a policy over named actions."""
    if known.dtype.kind not in "iubf" or known.tolist() != [0, 1] or actions.dtype.kind not in "US":
        return ""
    return (
        ". A model that predicts an outcome is no policy: predict it for each action, and pass "
        "tether.Categorical.from_probabilities with a function that returns 1 for the best action "
        "and 0 for the others"
    )


def picked(table: Floats, columns: Integers) -> Floats:
    """One entry per row of a table, in the given columns; a single row is used for all."""
    if len(table) == 1:
        return np.asarray(table[0][columns])
    return np.asarray(table[np.arange(len(columns)), columns])
