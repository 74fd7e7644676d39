"""A reward model: ridge regression on features of context and action.

It only makes estimates less noisy (`simulated_calibration`), so it is simple and fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.contexts import length
from tether._core.types import Floats
from tether.aiming.loss_model import LossModel
from tether.aiming.pair_features import PairFeatures
from tether.aiming.training_rows import LoggedRows

RIDGE_PENALTIES = tuple(10.0**power for power in range(-3, 5))
"""The penalties that are tried, by leave-one-out errors."""


class RewardModel:
    """Predicts rewards linearly in features of context and action.

    Parameters
    ----------
    features : PairFeatures
        The features.
    coefficients : ndarray
        One per feature.
    intercept : float
        What is added.
    """

    def __init__(self, features: PairFeatures, coefficients: Floats, intercept: float) -> None:
        self.features, self.coefficients, self.intercept = features, coefficients, intercept

    def __call__(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """Predict the reward of each action in its context.

        Parameters
        ----------
        contexts : array-like, data frame or int
            One row per action, or their number.
        actions : ndarray
            The actions.

        Returns
        -------
        ndarray of float
            One predicted reward per action.
        """
        return self.features(contexts, actions) @ self.coefficients + self.intercept

    def loss_table(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """Predict the reward of every action in every context.

        Parameters
        ----------
        contexts : array-like, data frame or int
            Contexts, or their number where there are none.
        actions : ndarray
            The actions.

        Returns
        -------
        ndarray of shape (contexts, actions)
            The predicted rewards.
        """
        flat = self.features.table(contexts, actions) @ self.coefficients + self.intercept
        return flat.reshape(length(contexts), len(actions))


def fit_rewards(rows: LoggedRows) -> LossModel:
    """Ridge regression of the rewards, with the penalty that predicts left-out rows best.

    It is a constant where contexts or actions are neither numbers nor labels.
    """
    try:
        features = PairFeatures(rows.contexts, rows.actions)
    except TypeError:
        mean = float(rows.rewards.mean())
        return lambda contexts, actions: np.full(len(actions), mean)
    matrix = features(rows.contexts, rows.actions)
    center, intercept = matrix.mean(axis=0), float(rows.rewards.mean())
    left, scales, right = np.linalg.svd(matrix - center, full_matrices=False)
    target = rows.rewards - intercept
    projected = left.T @ target
    best, coefficients = np.inf, np.zeros(matrix.shape[1])
    for penalty in RIDGE_PENALTIES:
        shrink = scales**2 / (scales**2 + penalty)
        residual = target - left @ (shrink * projected)
        leverage = 1 / len(target) + (left**2) @ shrink
        error = float(np.mean((residual / np.maximum(1 - leverage, 1e-9)) ** 2))
        if error < best:
            best = error
            coefficients = right.T @ (scales / (scales**2 + penalty) * projected)
    return RewardModel(features, coefficients, intercept - float(center @ coefficients))
