"""Acquisition over a box: a density that is constant on each cell of a grid, and exactly known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, length
from tether._core.types import Floats
from tether.bo.values import acquisition_values
from tether.sampling.discrete import log_softmax, sample_categorical

MOST_CELLS = 1 << 22
"""A grid of more cells than this is refused: in so many dimensions a pool serves better."""


class AcquisitionBox:
    """Density proportional to e^(acquisition / temperature) at the middle of each cell of a grid.

    A draw picks a cell and then a point of it, all alike; a score is the density of just that draw.
    So scores, draws and the normalizer are exact for this policy, and only it approximates the
    acquisition, up to its change within a cell: more `cells` bring it closer. `bounds` is BoTorch's
    pair of corners, all lower ends and all upper ends.

    >>> box = AcquisitionBox(lambda points: points[:, 0], [[0.0], [1.0]], cells=2, temperature=0.5)
    >>> np.exp(box.log_prob(3, [[0.1], [0.9], [1.5]])).round(3)
    array([0.538, 1.462, 0.   ])
    """

    def __init__(
        self, acquisition: Any, bounds: Any, *, cells: Any, temperature: float = 1.0
    ) -> None:
        self.lower, self.upper = _corners(bounds)
        self.cells = _counts(cells, len(self.lower))
        temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        self._width: Floats = (self.upper - self.lower) / self.cells
        values = acquisition_values(acquisition, self._middle(np.arange(self.cells.prod())))
        if values.max() == -np.inf:
            raise ValueError("the acquisition rules out every cell: all are -inf")
        self._log_chance: Floats = validate.frozen(log_softmax(values, temperature))
        self._log_volume = float(np.log(self._width).sum())

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[np.float64]:
        """Points of the box, one row each."""
        policy_calls.generator(rng)
        count = length(as_contexts(contexts))
        chosen = sample_categorical(self._log_chance[None], count, rng)
        place = np.column_stack(np.unravel_index(chosen, tuple(self.cells)))
        points = self.lower + (place + rng.random(place.shape)) * self._width
        strayed = self._cell(points) != chosen  # by rounding, into the cell beside it
        points[strayed] = self._middle(chosen[strayed])
        return np.asarray(points)

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-density of each point; −inf outside the box."""
        points = validate.floats("actions", actions, ndim=2)
        as_contexts(contexts, points)
        if points.shape[1] != len(self.lower):
            raise ValueError(
                f"actions has {points.shape[1]} coordinates but the box has {len(self.lower)}"
            )
        inside = ((points >= self.lower) & (points <= self.upper)).all(axis=1)
        scores = np.full(len(points), -np.inf)
        scores[inside] = self._log_chance[self._cell(points[inside])] - self._log_volume
        return scores

    def _cell(self, points: Floats) -> NDArray[np.int64]:
        """The number of the cell that each point lies in; an upper end belongs to the last one."""
        place = np.floor((points - self.lower) / self._width).astype(np.int64)
        place = np.clip(place, 0, self.cells - 1)
        return np.asarray(np.ravel_multi_index(tuple(place.T), tuple(self.cells)))

    def _middle(self, numbers: NDArray[np.int64]) -> Floats:
        place = np.column_stack(np.unravel_index(numbers, tuple(self.cells)))
        return np.asarray(self.lower + (place + 0.5) * self._width)


def _corners(bounds: Any) -> tuple[Floats, Floats]:
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


def _counts(cells: Any, dimensions: int) -> NDArray[np.int64]:
    counts = np.asarray(cells)
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (dimensions,)):
        raise TypeError(
            f"cells must be a whole number, or one for each of {dimensions} dimension(s), "
            f"got {cells!r}"
        )
    counts = np.broadcast_to(counts.astype(np.int64), (dimensions,))
    if counts.min() < 1:
        raise ValueError(f"cells must be at least 1, got {cells!r}")
    if np.log(counts).sum() > np.log(MOST_CELLS):
        raise ValueError(
            f"cells {cells!r} in {dimensions} dimension(s) are more than {MOST_CELLS:,}: take "
            f"fewer, or an AcquisitionPool of points spread over the box"
        )
    return counts
