"""A policy that is given by its table of log-probabilities over finitely many actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.contexts import as_contexts, length
from tether._core.plain_arrays import plain_column
from tether._core.types import Actions, Contexts, Floats, Integers
from tether.policies.unknown_actions import UnknownActionsError, outcome_hint
from tether.sampling.discrete import sample_categorical


class TablePolicy(ABC):
    """Scores and draws from `log_prob_all`, which a subclass defines."""

    actions: NDArray[Any]
    """Every action."""

    @abstractmethod
    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Compute the log-probability of every action in each context.

        Parameters
        ----------
        contexts : array-like or int
            Contexts, or the number of actions where there are none.

        Returns
        -------
        ndarray of shape (contexts, actions) or (1, actions)
            One row per context; a single row where there are no contexts.
        """

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Compute the log-probability of each action in its context.

        Parameters
        ----------
        contexts : array-like or int
            Contexts as in `log_prob_all`.
        actions : array-like
            One action per context.

        Returns
        -------
        ndarray
            One log-probability per action.

        Raises
        ------
        ValueError
            If an action is not one of `actions`.
        """
        columns = positions(self.actions, actions)
        return picked(self.log_prob_all(as_contexts(contexts, columns)), columns)

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context.

        Parameters
        ----------
        contexts : array-like or int
            Contexts as in `log_prob_all`.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray
            One action per context.
        """
        validate.generator("rng", rng)
        checked = as_contexts(contexts)
        columns = sample_categorical(self.log_prob_all(checked), length(checked), rng)
        return np.asarray(self.actions[columns])


def positions(known: NDArray[Any], actions: Actions) -> Integers:
    """The position of each action among the known ones; an unknown action is an error."""
    actions = plain_column("actions", actions)
    if actions.ndim != 1:
        raise ValueError(f"actions must have 1 dimension, got shape {actions.shape}")
    order = np.argsort(known, kind="stable")
    try:
        found = order[np.minimum(np.searchsorted(known, actions, sorter=order), len(known) - 1)]
    except TypeError as error:
        shown = ", ".join(map(repr, known[:5].tolist()))
        raise TypeError(
            f"actions must be among {shown}, got {actions[:5].tolist()}"
            f"{outcome_hint(known, actions)}"
        ) from error
    unknown = known[found] != actions
    if unknown.any():
        raise UnknownActionsError(known, actions, np.asarray(unknown))
    return np.asarray(found, dtype=np.int64)


def picked(table: Floats, columns: Integers) -> Floats:
    """One entry per row of a table, in the given columns; a single row is used for all."""
    if len(table) == 1:
        return np.asarray(table[0][columns])
    return np.asarray(table[np.arange(len(columns)), columns])
