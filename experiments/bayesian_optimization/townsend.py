"""The Townsend function and the curve inside which a point is feasible."""

from __future__ import annotations

import numpy as np

OPTIMUM = (2.0052938, 1.1944509)
"""Where the largest feasible value is, 2.0239884."""


def objective(points: np.ndarray) -> np.ndarray:
    """The value of each point, to be maximized."""
    x, y = points[:, 0], points[:, 1]
    return np.cos((x - 0.1) * y) ** 2 + x * np.sin(3 * x + y)


def feasible(points: np.ndarray) -> np.ndarray:
    """Whether each point lies inside the curve."""
    x, y = points[:, 0], points[:, 1]
    angle = np.arctan2(x, y)
    waves = np.cos(np.outer(angle, [1, 2, 3, 4])) @ [2, -1 / 2, -1 / 4, -1 / 8]
    return x**2 + y**2 < waves**2 + (2 * np.sin(angle)) ** 2
