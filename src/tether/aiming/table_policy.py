"""A policy that is given by its table of log-probabilities over finitely many actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.contexts import as_contexts, length
from tether._core.types import Actions, Contexts, Floats
from tether.policies.categorical import picked, positions
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
