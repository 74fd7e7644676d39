"""Pools: one distribution over a finite pool of candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.contexts import as_contexts, length
from tether._core.types import Actions, Contexts, Floats
from tether.policies.table_policy import positions
from tether.sampling.discrete import log_softmax, sample_categorical


class Pool:
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
        self.actions: NDArray[Any] = validate.frozen(np.arange(len(values)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.actions)} candidates)"

    @staticmethod
    def uniform(size: int) -> Pool:
        """Build the uniform distribution over a pool, a common safe policy.

        Parameters
        ----------
        size : int
            Number of candidates, at least 1.

        Returns
        -------
        Pool
            A pool with equal probabilities.

        Raises
        ------
        TypeError
            If `size` is not an integer.
        ValueError
            If `size` is below 1.
        """
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise TypeError(f"size must be an integer, got {size!r}")
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size!r}")
        return Pool(np.zeros(size))

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Return the log-probability of every candidate.

        Parameters
        ----------
        contexts : array-like or int
            Contexts, which do not matter to a pool, or their number.

        Returns
        -------
        ndarray of shape (1, candidates)
            A single row, valid in every context.
        """
        as_contexts(contexts)
        return self._table

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Return the log-probability of each picked candidate.

        Parameters
        ----------
        contexts : array-like or int
            Contexts, which do not matter to a pool, or their number.
        actions : array-like of int
            Positions in the pool.

        Returns
        -------
        ndarray
            One log-probability per action.

        Raises
        ------
        ValueError
            If an action is not a position in the pool.
        """
        columns = positions(self.actions, actions)
        as_contexts(contexts, columns)
        return np.asarray(self._table[0][columns])

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw positions in the pool, with replacement.

        Parameters
        ----------
        contexts : array-like or int
            Contexts, which do not matter to a pool, or the number of draws.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray of int64
            One position per context.
        """
        validate.generator("rng", rng)
        return sample_categorical(self._table, length(as_contexts(contexts)), rng)
