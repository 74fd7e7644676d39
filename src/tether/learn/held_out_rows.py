"""Which rows of a training set are held out to calibrate on: some at random, whatever they hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing, check_random_state

from tether._core import validate

LARGEST_SEED = 2**31 - 1


class HeldOutRows(NamedTuple):
    """Rows to fit on and rows to calibrate on."""

    X_fit: Any
    y_fit: Any
    X_calibration: Any
    y_calibration: Any


def hold_out(X: Any, y: Any, share: float, rng: np.random.Generator) -> HeldOutRows:
    """Split rows at random, without a look at their labels: those held out stay exchangeable.

    A stratified split would not do: it makes the number of rows of a class depend on all rows.
    """
    share = validate.number("calibration_share", share, above=0, below=1)
    order = rng.permutation(len(y))
    held_out = min(max(1, round(share * len(y))), len(y) - 1)
    if held_out < 1:
        raise ValueError(
            f"fit needs at least 2 rows, one of them to calibrate on, got n_samples = {len(y)}"
        )
    calibration, fit = np.sort(order[:held_out]), np.sort(order[held_out:])
    return HeldOutRows(
        *(_safe_indexing(X, fit), _safe_indexing(y, fit)),
        *(_safe_indexing(X, calibration), _safe_indexing(y, calibration)),
    )


def seed_from(random_state: Any) -> int:
    """One seed from what scikit-learn calls a random state."""
    return int(check_random_state(random_state).randint(LARGEST_SEED))
