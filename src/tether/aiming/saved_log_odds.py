"""Fitted models of log odds as plain arrays: what is left of them when they are saved.

Trees of scikit-learn cannot be loaded without trusting their types, and linear models need the
extra `skops`. As arrays they need neither, and every index is checked when they are loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core.types import Booleans, Floats, Integers

VISITS_AT_ONCE = 2_000_000
"""How many pairs of a row and a tree are looked at together."""


@dataclass(frozen=True, eq=False)
class LinearLogOdds:
    """Log odds that are linear in the features.

    Parameters
    ----------
    coefficients : numpy.ndarray of float
        One for each feature.
    intercept : float
        The log odds where all features are 0.
    """

    coefficients: Floats
    intercept: float

    def log_odds(self, matrix: Floats) -> Floats:
        """Compute the log odds of each row.

        Parameters
        ----------
        matrix : ndarray of shape (rows, features)
            The features.

        Returns
        -------
        ndarray of float
            One number per row.
        """
        return np.asarray(matrix @ self.coefficients + self.intercept)


@dataclass(frozen=True, eq=False)
class TreeLogOdds:
    """Log odds that are a sum over decision trees; a leaf is a node that is its own child.

    Parameters
    ----------
    baseline : float
        What the trees add to.
    feature, threshold, missing_left, left, right, value : numpy.ndarray of shape (trees, nodes)
        For each node, the feature and the threshold up to which a row goes to the left child,
        whether one without that feature does, the positions of both children, and what a row that
        ends here adds. The root is node 0.
    depth : int
        How many steps lead from a root to a leaf at most.
    """

    baseline: float
    feature: Integers
    threshold: Floats
    missing_left: Booleans
    left: Integers
    right: Integers
    value: Floats
    depth: int

    def log_odds(self, matrix: Floats) -> Floats:
        """Compute the log odds of each row.

        Parameters
        ----------
        matrix : ndarray of shape (rows, features)
            The features.

        Returns
        -------
        ndarray of float
            One number per row.
        """
        step = max(1, VISITS_AT_ONCE // len(self.value))
        pieces = [self._sums(matrix[begin : begin + step]) for begin in range(0, len(matrix), step)]
        return np.concatenate([np.empty(0), *pieces]) + self.baseline

    def _sums(self, matrix: Floats) -> Floats:
        rows, trees = np.arange(len(matrix))[:, None], np.arange(len(self.value))[None]
        node = np.zeros((len(matrix), len(self.value)), dtype=np.int64)
        for _ in range(self.depth):
            seen = matrix[rows, self.feature[trees, node]]
            is_left = np.where(
                np.isnan(seen), self.missing_left[trees, node], seen <= self.threshold[trees, node]
            )
            node = np.where(is_left, self.left[trees, node], self.right[trees, node])
        return np.asarray(self.value[trees, node].sum(axis=1))


def saved_log_odds(model: Any, largest: float) -> LinearLogOdds | TreeLogOdds:
    """A fitted classifier of two classes as arrays; `largest` are the log odds of a single one."""
    if isinstance(model, LinearLogOdds | TreeLogOdds):
        return model
    if len(model.classes_) == 1:
        constant = largest * (2.0 * float(model.classes_[0]) - 1)
        return LinearLogOdds(np.zeros(int(model.n_features_in_)), constant)
    if hasattr(model, "coef_"):
        return LinearLogOdds(np.array(model.coef_[0], dtype=np.float64), float(model.intercept_[0]))
    trees = [each[0].nodes for each in model._predictors]
    shape = (len(trees), max(map(len, trees)))
    left = np.tile(np.arange(shape[1]), (shape[0], 1))
    right, feature = left.copy(), np.zeros(shape, dtype=np.int64)
    threshold, value, missing = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    for row, nodes in enumerate(trees):
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        left[row, inner], right[row, inner] = nodes["left"][inner], nodes["right"][inner]
        feature[row, inner] = nodes["feature_idx"][inner]
        threshold[row, inner] = nodes["num_threshold"][inner]
        missing[row, inner] = nodes["missing_go_to_left"][inner] != 0
        value[row, : len(nodes)] = nodes["value"]
    depth = max(int(nodes["depth"].max()) for nodes in trees)
    baseline = float(np.asarray(model._baseline_prediction).ravel()[0])
    return TreeLogOdds(baseline, feature, threshold, missing, left, right, value, depth)
