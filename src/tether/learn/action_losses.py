"""The loss of taking an action where another class was right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.types import Floats
from tether.policies.table_policy import positions


def action_losses(
    loss: Any, bound: float, classes: NDArray[Any], labels: Any, actions: NDArray[Any]
) -> Floats:
    """One loss per row: zero-one by default, from a table of costs, or from a function."""
    labels = np.asarray(labels)
    if loss is None:
        losses = (labels != actions).astype(np.float64)
    elif callable(loss):
        losses = validate.losses("the result of loss", loss(labels, actions))
        validate.same_length("the result of loss", losses, "its actions", len(actions))
    else:
        costs = validate.floats("loss", loss, ndim=2)
        if costs.shape != (len(classes), len(classes)):
            raise ValueError(
                f"loss must be a table of costs of shape {(len(classes),) * 2}: one row per true "
                f"class, one column per action; got shape {costs.shape}"
            )
        losses = costs[positions(classes, labels), positions(classes, actions)]
    outside = ~((losses >= 0) & (losses <= bound))
    if outside.any():
        validate.reject("loss", losses, outside, f"a loss from 0 to bound = {bound:g}")
    return np.asarray(losses)
