"""Regions of the features where an estimated density ratio looks wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tether._core.types import Booleans, Floats, Integers
from tether.policies.ratio_features import is_sparse

MAX_REGIONS = 8
"""Into how many regions the features are cut."""
MIN_SHARE_OF_REGION, MIN_DRAWS_OF_REGION = 0.05, 100
"""The smallest share and number of draws that a region has: a smaller one cannot be measured."""
SMALLEST_VARIANCE = 1e-3
"""What a draw counts at least for, however sure the estimate is of it."""


def fit_regions(
    matrix: Any, log_ratio: Floats, is_optimized: Booleans, rng: np.random.Generator
) -> Callable[[Any, Floats], Integers]:
    """Find where log ratios, of draws that their classifier had not seen, are off the most.

    A small regression tree predicts the error of the log odds (one Newton step) from the columns of
    the matrix and the log ratio. It sees what a classifier that is too simple does not. The
    function that is returned says in which region a draw lies.
    """
    from scipy.special import expit
    from sklearn.tree import DecisionTreeRegressor

    optimized = int(is_optimized.sum())
    log_prior = np.log(optimized) - np.log(len(is_optimized) - optimized)
    expected = expit(log_ratio + log_prior)
    variance = np.maximum(expected * (1 - expected), SMALLEST_VARIANCE)
    tree = DecisionTreeRegressor(
        max_leaf_nodes=MAX_REGIONS,
        min_samples_leaf=max(MIN_DRAWS_OF_REGION, int(MIN_SHARE_OF_REGION * len(log_ratio))),
        random_state=int(rng.integers(2**31 - 1)),
    )
    error = (is_optimized - expected) / variance
    tree.fit(_with_column(matrix, log_ratio), error, sample_weight=variance)
    return lambda columns, scores: np.asarray(tree.apply(_with_column(columns, scores)))


def _with_column(matrix: Any, column: Floats) -> Any:
    if is_sparse(matrix):
        from scipy.sparse import csr_array, hstack

        return hstack([matrix, csr_array(column[:, None])]).tocsr()
    return np.hstack([matrix, column[:, None]])
