"""Pools: one distribution over a finite pool of candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, length
from tether._core.types import Floats
from tether.policies.categorical import positions
from tether.sampling.discrete import log_softmax, sample_categorical


class Pool:
    """Picks from a pool: candidate i with probability proportional to e^(score_i / temperature).

    Actions are positions in the pool, and contexts are only counted. This is one marginal
    distribution, as in active learning and Bayesian optimization; a score of −inf rules out.

    >>> Pool([0.0, 1.0, 2.0], temperature=0.5).sample(5, np.random.default_rng(0))
    array([2, 2, 1, 1, 2])
    """

    def __init__(self, scores: Any, temperature: float = 1.0) -> None:
        values = validate.floats("scores", scores)
        if not values.max() < np.inf:
            validate.reject("scores", values, ~(values < np.inf), "a score below +inf")
        if values.max() == -np.inf:
            raise ValueError("scores rule out every candidate: all are -inf")
        temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        self._table = validate.frozen(log_softmax(values, temperature)[None])
        self.actions: NDArray[Any] = validate.frozen(np.arange(len(values)))

    @staticmethod
    def uniform(size: int) -> Pool:
        """Every candidate alike: the safe policy that many labs run."""
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise TypeError(f"size must be a whole number, got {size!r}")
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size!r}")
        return Pool(np.zeros(size))

    def log_prob_all(self, contexts: Any) -> Floats:
        """One row: the log-probability of every candidate."""
        as_contexts(contexts)
        return self._table

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-probability of each candidate picked."""
        place = positions(self.actions, actions)
        as_contexts(contexts, place)
        return np.asarray(self._table[0][place])

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """Positions in the pool, with replacement."""
        policy_calls.generator(rng)
        return sample_categorical(self._table, length(as_contexts(contexts)), rng)
