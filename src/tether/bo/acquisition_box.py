"""Acquisition over a box: a density that is constant on each cell of a grid, known exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.contexts import as_contexts, length
from tether._core.types import Actions, Contexts, Floats, Integers
from tether.bo.evaluate_acquisition import acquisition_values
from tether.sampling.discrete import log_softmax, sample_categorical

MAX_CELLS = 1 << 22
"""The largest number of cells of a grid; beyond it, in many dimensions, a pool is better suited."""


class AcquisitionBox:
    """Density proportional to e^(acquisition / temperature) at the centre of each cell of a grid.

    A draw picks a cell and then a point of it uniformly; a score is the density of exactly that
    draw. So scores, draws and the normalizing constant are exact for this policy. The policy
    itself approximates the acquisition up to its change within a cell.

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

    Raises
    ------
    ValueError
        If the bounds are not finite and increasing, there are too many cells, or the acquisition
        is NaN or +inf at a centre, or −inf at every centre.
    TypeError
        If `cells` does not hold integers, one per dimension.

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
        self.lower, self.upper = _check_bounds(bounds)
        self.cells = _check_cells(cells, len(self.lower))
        temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        self._width: Floats = (self.upper - self.lower) / self.cells
        values = acquisition_values(acquisition, self._centres(np.arange(self.cells.prod())))
        if values.max() == -np.inf:
            raise ValueError("the acquisition rules out every cell: all are -inf")
        self._log_probability: Floats = validate.frozen(log_softmax(values, temperature))
        self._log_volume = float(np.log(self._width).sum())

    def __repr__(self) -> str:
        return f"AcquisitionBox({len(self.lower)} dimensions, {int(np.prod(self.cells))} cells)"

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw points of the box.

        Parameters
        ----------
        contexts : array-like or int
            Contexts, which do not matter to a box, or the number of draws.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (contexts, dimensions)
            One point per row.
        """
        validate.generator("rng", rng)
        count = length(as_contexts(contexts))
        chosen = sample_categorical(self._log_probability[None], count, rng)
        cell = np.column_stack(np.unravel_index(chosen, tuple(self.cells)))
        points = self.lower + (cell + rng.random(cell.shape)) * self._width
        strayed = self._cell_numbers(points) != chosen  # by rounding, into a neighbouring cell
        points[strayed] = self._centres(chosen[strayed])
        return np.asarray(points)

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Compute the log-density of each point.

        Parameters
        ----------
        contexts : array-like or int
            Contexts, which do not matter to a box, or their number.
        actions : array-like of shape (contexts, dimensions)
            One point per row.

        Returns
        -------
        ndarray
            One log-density per point; −inf outside the box.

        Raises
        ------
        ValueError
            If the points have another number of coordinates than the box.
        """
        points = validate.floats("actions", actions, ndim=2)
        as_contexts(contexts, points)
        if points.shape[1] != len(self.lower):
            raise ValueError(
                f"actions has {points.shape[1]} coordinates but the box has {len(self.lower)}"
            )
        inside = ((points >= self.lower) & (points <= self.upper)).all(axis=1)
        scores = np.full(len(points), -np.inf)
        cells = self._cell_numbers(points[inside])
        scores[inside] = self._log_probability[cells] - self._log_volume
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


def _check_bounds(bounds: ArrayLike) -> tuple[Floats, Floats]:
    corners = validate.floats("bounds", bounds, ndim=2)
    if len(corners) != 2:
        raise ValueError(
            f"bounds must have two rows, lower and upper ends, got shape {corners.shape}"
        )
    lower, upper = corners
    if not (np.isfinite(corners).all() and (lower < upper).all()):
        raise ValueError(
            f"bounds must be finite, lower ends below upper ones, got {lower} and {upper}"
        )
    return lower, upper


def _check_cells(cells: ArrayLike, dimensions: int) -> Integers:
    counts = np.asarray(cells)
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (dimensions,)):
        raise TypeError(
            f"cells must be an integer, or one for each of {dimensions} dimension(s), got {cells!r}"
        )
    counts = np.broadcast_to(counts.astype(np.int64), (dimensions,))
    if counts.min() < 1:
        raise ValueError(f"cells must be at least 1, got {cells!r}")
    if np.log(counts).sum() > np.log(MAX_CELLS):
        raise ValueError(
            f"cells {cells!r} in {dimensions} dimension(s) are more than {MAX_CELLS:,}: use "
            f"fewer, or an AcquisitionPool of points spread over the box"
        )
    return counts
