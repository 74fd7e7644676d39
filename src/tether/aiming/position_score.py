"""A policy over the positions of a shortlist, as the score of a picker."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Contexts, Floats
from tether.policies.picker import ShortlistRows
from tether.policies.policy import FinitePolicy


class PositionScore:
    """Scores candidates by the log-probabilities that a policy gives to their positions.

    A picker with this score, at a temperature of 1, is that policy.

    Parameters
    ----------
    policy : FinitePolicy
        A policy over positions, whose contexts are `ShortlistRows`: a picker that is tilted or
        tempered.
    """

    def __init__(self, policy: FinitePolicy) -> None:
        self.policy = policy

    def __call__(self, contexts: Contexts, candidates: NDArray[Any]) -> Floats:
        """Score the candidates of each context.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or their number.
        candidates : ndarray of shape (contexts, N) or (contexts, N, …)
            The candidates.

        Returns
        -------
        ndarray of shape (contexts, N)
            One score per candidate.
        """
        rows = ShortlistRows(contexts, candidates)
        return np.broadcast_to(self.policy.log_prob_all(rows), (len(rows), rows.size))

    def __repr__(self) -> str:
        return f"PositionScore({self.policy!r})"
