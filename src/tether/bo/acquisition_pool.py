"""Acquisition over a pool of candidate points: exact, in any number of dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.types import Actions, Floats
from tether.bo.evaluate_acquisition import acquisition_values
from tether.policies.categorical import check_normalized
from tether.policies.pool import Pool
from tether.policies.table_policy import positions


class AcquisitionPool(Pool):
    """Pick candidate i with probability proportional to e^(acquisition_i / temperature).

    Actions are positions in the pool, as for every `Pool`; `points` returns their coordinates.
    Scores, draws, and the normalizing constant of a tethered policy between two such pools are all
    exact.

    Parameters
    ----------
    acquisition : callable
        A BoTorch acquisition function, or any function from points (rows × coordinates) to values.
    candidates : array-like of shape (candidates, dimensions)
        The candidate points, one per row.
    temperature : float, default 1.0
        A temperature below 1 sharpens the distribution, above 1 flattens it.

    Raises
    ------
    ValueError
        If the acquisition is NaN or +inf at a candidate, or −inf at every candidate.

    Examples
    --------
    >>> pool = AcquisitionPool(lambda points: points[:, 0], [[0.0], [1.0], [2.0]], temperature=0.5)
    >>> np.exp(pool.log_prob(3, [0, 1, 2])).round(3)
    array([0.016, 0.117, 0.867])
    """

    def __init__(
        self, acquisition: Callable[[Any], Any], candidates: ArrayLike, temperature: float = 1.0
    ) -> None:
        self.candidates: Floats = validate.floats("candidates", candidates, ndim=2)
        super().__init__(acquisition_values(acquisition, self.candidates), temperature)

    def points(self, actions: Actions) -> NDArray[np.float64]:
        """Return the candidate points of the actions.

        Parameters
        ----------
        actions : array-like of int
            Positions in the pool.

        Returns
        -------
        ndarray of shape (actions, dimensions)
            One point per action.

        Raises
        ------
        ValueError
            If an action is not a position in the pool.
        """
        return np.asarray(self.candidates[positions(self.actions, actions)])

    def tether_save(self) -> dict[str, Any]:
        """Return what a saved pool consists of; the acquisition function is no longer needed.

        Returns
        -------
        dict
            The candidates and their log-probabilities.
        """
        return {"candidates": self.candidates, "log_probabilities": self._table[0]}

    @classmethod
    def tether_load(cls, saved: dict[str, Any]) -> Self:
        """Build a pool from what `tether_save` returned.

        Parameters
        ----------
        saved : dict
            The candidates and their log-probabilities.

        Returns
        -------
        AcquisitionPool
            The same pool.
        """
        table = check_normalized("log_probabilities", saved["log_probabilities"], 1)[None]
        pool = cls(lambda points: table[0], saved["candidates"])
        pool._table = validate.frozen(table)  # normalized once, not twice
        return pool
