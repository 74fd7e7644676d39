"""Acquisition over a pool of candidate points: exact, in any number of dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.types import Floats
from tether.bo.values import acquisition_values
from tether.policies.categorical import positions
from tether.policies.pool import Pool


class AcquisitionPool(Pool):
    """Picks candidate i with probability proportional to e^(acquisition_i / temperature).

    Actions are positions in the pool, as of every `Pool`; `points` says where they lie. Scores,
    draws, and the normalizer of a tethered policy between two such pools are all exact.

    >>> pool = AcquisitionPool(lambda points: points[:, 0], [[0.0], [1.0], [2.0]], temperature=0.5)
    >>> np.exp(pool.log_prob(3, [0, 1, 2])).round(3)
    array([0.016, 0.117, 0.867])
    """

    def __init__(self, acquisition: Any, candidates: Any, temperature: float = 1.0) -> None:
        self.candidates: Floats = validate.floats("candidates", candidates, ndim=2)
        super().__init__(acquisition_values(acquisition, self.candidates), temperature)

    def points(self, actions: Any) -> NDArray[np.float64]:
        """The candidate points that the actions stand for, one row each."""
        return np.asarray(self.candidates[positions(self.actions, actions)])
