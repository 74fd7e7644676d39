"""Policies over finitely many actions that are given by a table, and pools of candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.arrays import Actions, Contexts, Floats, Integers, few, plain_column
from tether._core.contexts import as_contexts, length
from tether.policies.policy import OUTCOMES, TO_KNOW_MORE_ACTIONS
from tether.sampling.samplers import log_softmax, sample_categorical


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
        return Pool(np.zeros(validate.integer("size", size)))

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """The log-probability of every candidate: a single row, valid in every context."""
        as_contexts(contexts)
        return self._table


def positions(known: NDArray[Any], actions: Actions, name: str | None = None) -> Integers:
    """The position of each action among the known ones; an unknown action is an error."""
    actions = plain_column("actions", actions)
    if actions.ndim != 1:
        raise ValueError(f"actions must have 1 dimension, got shape {actions.shape}")
    order = np.argsort(known, kind="stable")
    try:
        found = order[np.minimum(np.searchsorted(known, actions, sorter=order), len(known) - 1)]
        unknown = known[found] != actions
    except TypeError as error:
        raise TypeError(
            f"actions must be among {few(known)}, got {few(actions)}. {OUTCOMES}"
        ) from error
    if unknown.any():
        lacking = np.unique(actions[unknown])
        whose = "" if name is None else f" of the {name} policy. {TO_KNOW_MORE_ACTIONS}"
        raise ValueError(
            f"actions has {few(lacking)} in {int(unknown.sum()):,} of {len(actions):,} rows, first "
            f"in row {int(np.argmax(unknown))}: expected one of {few(known)}, the {len(known)} "
            f"actions{whose}. {OUTCOMES}"
        )
    return np.asarray(found, dtype=np.int64)


def picked(table: Floats, columns: Integers) -> Floats:
    """One entry per row of a table, in the given columns; a single row is used for all."""
    if len(table) == 1:
        return np.asarray(table[0][columns])
    return np.asarray(table[np.arange(len(columns)), columns])
