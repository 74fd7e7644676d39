"""Acquisition values: what an acquisition function says of each point."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.types import Floats

CHUNK = 2048
"""How many points are asked about at once; each is a batch of its own, which takes memory."""


def acquisition_values(acquisition: Any, points: Any) -> Floats:
    """The value at each row of `points`; −inf rules a point out, NaN and +inf are refused.

    `acquisition` is a BoTorch acquisition function, asked about one point at a time (q = 1) in
    double precision and without gradients, or any function from points (rows × coordinates) to
    values.

    >>> acquisition_values(lambda points: -(points**2).sum(axis=1), [[0.0, 1.0], [1.0, 1.0]])
    array([-1., -2.])
    """
    rows = validate.floats("points", points, ndim=2)
    if not np.isfinite(rows).all():
        validate.reject("points", rows, ~np.isfinite(rows), "a finite coordinate")
    if not callable(acquisition):
        raise TypeError(f"acquisition must be a function of points, got {acquisition!r}")
    ask = _asked_by_tensor if _is_botorch(acquisition) else _asked_by_array
    pieces = [ask(acquisition, rows[start : start + CHUNK]) for start in range(0, len(rows), CHUNK)]
    values = validate.floats("the acquisition's values", np.concatenate(pieces))
    if not values.max() < np.inf:  # NaN fails this too
        validate.reject(
            "the acquisition's values", values, ~(values < np.inf), "a value below +inf"
        )
    return values


def _is_botorch(acquisition: Any) -> bool:
    """Whoever has such a function has imported BoTorch already, so that it need not be here."""
    botorch = sys.modules.get("botorch")
    return botorch is not None and isinstance(acquisition, botorch.acquisition.AcquisitionFunction)


def _asked_by_tensor(acquisition: Any, rows: Floats) -> NDArray[Any]:
    import torch

    with torch.no_grad():
        values = acquisition(torch.tensor(rows, dtype=torch.float64).unsqueeze(-2))
    return _one_each(values.detach().cpu().numpy(), rows)


def _asked_by_array(acquisition: Any, rows: Floats) -> NDArray[Any]:
    return _one_each(np.asarray(acquisition(rows)), rows)


def _one_each(values: NDArray[Any], rows: Floats) -> NDArray[Any]:
    if values.shape != (len(rows),):
        raise ValueError(
            f"the acquisition returned shape {values.shape} for {len(rows)} point(s); "
            f"expected one value for each"
        )
    return values
