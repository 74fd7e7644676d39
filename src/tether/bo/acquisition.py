"""Acquisition functions as policies: over a pool of points, or over a box cut into cells."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.arrays import Actions, Floats, Integers
from tether.policies.categorical import Pool
from tether.policies.policy import CheckedPolicy

MAX_CELLS = 1 << 22
"""The largest number of cells of a grid; beyond it, in many dimensions, a pool is better suited."""
_POINTS_PER_CALL = 2048  # each point is a batch of its own for BoTorch, which takes memory


def acquisition_values(acquisition: Callable[[Any], Any], points: ArrayLike) -> Floats:
    """Evaluate an acquisition function at each row of `points`.

    A BoTorch acquisition function is evaluated at one point at a time (q = 1), in double precision
    and without gradients.

    Parameters
    ----------
    acquisition : callable
        A BoTorch acquisition function, or any function from points (rows × coordinates) to values.
    points : array-like of shape (points, dimensions)
        Finite coordinates, one point per row.

    Returns
    -------
    ndarray
        One value per point; −inf excludes a point.

    Examples
    --------
    >>> acquisition_values(lambda points: -(points**2).sum(axis=1), [[0.0, 1.0], [1.0, 1.0]])
    array([-1., -2.])
    """
    rows = validate.floats("points", points, ndim=2, meaning="coordinate", finite=True)
    if not callable(acquisition):
        raise TypeError(f"acquisition must be a function of points, got {acquisition!r}")
    botorch = sys.modules.get("botorch")  # whoever passes BoTorch's has imported it
    of_botorch = botorch and isinstance(acquisition, botorch.acquisition.AcquisitionFunction)
    pieces = []
    for start in range(0, len(rows), _POINTS_PER_CALL):
        piece = rows[start : start + _POINTS_PER_CALL]
        found = _of_botorch(acquisition, piece) if of_botorch else np.asarray(acquisition(piece))
        if found.shape != (len(piece),):
            raise ValueError(
                f"the acquisition must return one value per point, got shape {found.shape} for "
                f"{len(piece)} point(s)"
            )
        pieces.append(found)
    values = validate.floats("the acquisition's values", np.concatenate(pieces))
    if not values.max() < np.inf:  # also if NaN
        bad = ~(values < np.inf)
        validate.reject("the acquisition's values", values, bad, "a value below +inf")
    return values


def _of_botorch(acquisition: Any, rows: Floats) -> Any:
    import torch

    with torch.no_grad():
        values = acquisition(torch.tensor(rows, dtype=torch.float64).unsqueeze(-2))
    return values.detach().cpu().numpy()


class AcquisitionPool(Pool):
    """Pick candidate i with probability proportional to e^(acquisition_i / temperature).

    Actions are positions in the pool, as for every `Pool`; `points` returns their coordinates.
    Scores, draws and normalizing constants are exact, in any number of dimensions.

    Parameters
    ----------
    acquisition : callable
        A BoTorch acquisition function, or any function from points (rows × coordinates) to values.
    candidates : array-like of shape (candidates, dimensions)
        The candidate points, one per row.
    temperature : float, default 1.0
        A temperature below 1 sharpens the distribution, above 1 flattens it.

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
        values = acquisition_values(acquisition, self.candidates)
        self._saved = {"values": values, "candidates": self.candidates, "temperature": temperature}
        super().__init__(values, temperature)

    def points(self, actions: Actions) -> Floats:
        """Return the candidate points of actions, which are positions in the pool."""
        self.log_prob(len(np.asarray(actions)), actions)  # refuses what is not a position
        return np.asarray(self.candidates[np.asarray(actions)])

    def tether_save(self) -> dict[str, Any]:
        """Return what a saved pool consists of; the acquisition function is no longer needed."""
        return self._saved

    @classmethod
    def tether_load(cls, saved: dict[str, Any]) -> Self:
        """Build a pool from what `tether_save` returned."""
        values = iter(saved["values"])
        return cls(
            lambda points: np.array([next(values) for _ in points]),
            saved["candidates"],
            saved["temperature"],
        )


class AcquisitionBox(CheckedPolicy):
    """Density proportional to e^(acquisition / temperature) at the centre of each cell of a grid.

    Actions are points, of shape (rows, dimensions); contexts are only counted. A draw picks a cell
    and then a point of it uniformly, and a score is the density of exactly that draw. The policy
    approximates the acquisition up to its change within a cell.

    Parameters
    ----------
    acquisition : callable
        A BoTorch acquisition function, or any function from points (rows × coordinates) to values.
    bounds : array-like of shape (2, dimensions)
        The lower and the upper corner of the box, as in BoTorch.
    cells : int or array-like of int
        Number of cells in each dimension, or one number for all. More cells approximate the
        acquisition more closely.
    temperature : float, default 1.0
        A temperature below 1 sharpens the distribution, above 1 flattens it.

    Examples
    --------
    >>> box = AcquisitionBox(lambda points: points[:, 0], [[0.0], [1.0]], cells=2, temperature=0.5)
    >>> np.exp(box.log_prob(3, [[0.1], [0.9], [1.5]])).round(3)
    array([0.538, 1.462, 0.   ])
    """

    def __init__(
        self,
        acquisition: Callable[[Any], Any],
        bounds: ArrayLike,
        *,
        cells: ArrayLike,
        temperature: float = 1.0,
    ) -> None:
        corners = validate.floats("bounds", bounds, ndim=2)
        if len(corners) != 2 or not np.isfinite(corners).all() or (corners[0] >= corners[1]).any():
            raise ValueError(f"bounds must be finite ends, lower below upper, got {bounds!r}")
        self.lower, self.upper = corners
        counts = np.asarray(cells)
        if counts.dtype.kind not in "iu" or counts.shape not in ((), self.lower.shape):
            raise TypeError(
                f"cells must be an integer, or one for each of {len(self.lower)} dimension(s), got "
                f"{cells!r}"
            )
        self.cells: Integers = np.broadcast_to(counts.astype(np.int64), self.lower.shape)
        if self.cells.min() < 1 or np.log(self.cells).sum() > np.log(MAX_CELLS):
            raise ValueError(
                f"cells must be at least 1 and at most {MAX_CELLS:,} in all, got {cells!r}: for "
                f"more, use an AcquisitionPool of points spread over the box"
            )
        self._width: Floats = (self.upper - self.lower) / self.cells
        values = acquisition_values(acquisition, self._centres(np.arange(self.cells.prod())))
        self._pool = Pool(values, temperature)
        self._log_volume = float(np.log(self._width).sum())

    def __repr__(self) -> str:
        return f"AcquisitionBox({len(self.lower)} dimensions, {int(np.prod(self.cells))} cells)"

    def _sample(self, contexts: Any, rng: np.random.Generator) -> Floats:
        chosen = self._pool.sample(contexts, rng)
        cell = np.column_stack(np.unravel_index(chosen, tuple(self.cells)))
        points = self.lower + (cell + rng.random(cell.shape)) * self._width
        strayed = self._cell_numbers(points) != chosen  # by rounding, into a neighbouring cell
        points[strayed] = self._centres(chosen[strayed])
        return np.asarray(points)

    def _log_prob(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """−inf outside the box."""
        points = validate.floats("actions", actions, ndim=2)
        table = self._pool.log_prob_all(contexts)[0]
        if points.shape[1] != len(self.lower):
            raise ValueError(
                f"actions must have {len(self.lower)} coordinates, got {points.shape[1]}"
            )
        inside = ((points >= self.lower) & (points <= self.upper)).all(axis=1)
        scores = np.full(len(points), -np.inf)
        scores[inside] = table[self._cell_numbers(points[inside])] - self._log_volume
        return scores

    def _cell_numbers(self, points: Floats) -> Integers:
        """The number of the cell of each point; an upper boundary belongs to the last cell."""
        cell = np.floor((points - self.lower) / self._width).astype(np.int64)
        cell = np.clip(cell, 0, self.cells - 1)
        return np.asarray(np.ravel_multi_index(tuple(cell.T), tuple(self.cells)))

    def _centres(self, numbers: Integers) -> Floats:
        """The centres of the cells with these numbers."""
        cell = np.column_stack(np.unravel_index(numbers, tuple(self.cells)))
        return np.asarray(self.lower + (cell + 0.5) * self._width)
