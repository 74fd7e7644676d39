"""The value of an acquisition function at each of many points."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.types import Floats

POINTS_PER_CALL = 2048
"""The largest number of points in one call; each is a batch of its own, which takes memory."""


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

    Raises
    ------
    ValueError
        If a value is NaN or +inf, a coordinate is not finite, or there is not one value per point.
    TypeError
        If `acquisition` is not callable.

    Examples
    --------
    >>> acquisition_values(lambda points: -(points**2).sum(axis=1), [[0.0, 1.0], [1.0, 1.0]])
    array([-1., -2.])
    """
    rows = validate.floats("points", points, ndim=2)
    if not np.isfinite(rows).all():
        validate.reject("points", rows, ~np.isfinite(rows), "a finite coordinate")
    if not callable(acquisition):
        raise TypeError(f"acquisition must be a function of points, got {acquisition!r}")
    evaluate = _evaluate_botorch if _is_botorch(acquisition) else _evaluate_function
    pieces = [
        evaluate(acquisition, rows[start : start + POINTS_PER_CALL])
        for start in range(0, len(rows), POINTS_PER_CALL)
    ]
    values = validate.floats("the acquisition's values", np.concatenate(pieces))
    if not values.max() < np.inf:  # also if NaN
        validate.reject(
            "the acquisition's values", values, ~(values < np.inf), "a value below +inf"
        )
    return values


def _is_botorch(acquisition: Any) -> bool:
    """Whether this is BoTorch's; whoever has such a function has imported BoTorch already."""
    botorch = sys.modules.get("botorch")
    return botorch is not None and isinstance(acquisition, botorch.acquisition.AcquisitionFunction)


def _evaluate_botorch(acquisition: Any, rows: Floats) -> NDArray[Any]:
    import torch

    with torch.no_grad():
        values = acquisition(torch.tensor(rows, dtype=torch.float64).unsqueeze(-2))
    return _check_one_value_per_row(values.detach().cpu().numpy(), rows)


def _evaluate_function(acquisition: Any, rows: Floats) -> NDArray[Any]:
    return _check_one_value_per_row(np.asarray(acquisition(rows)), rows)


def _check_one_value_per_row(values: NDArray[Any], rows: Floats) -> NDArray[Any]:
    if values.shape != (len(rows),):
        raise ValueError(
            f"the acquisition returned shape {values.shape} for {len(rows)} point(s); "
            f"expected one value per point"
        )
    return values
