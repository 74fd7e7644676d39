"""The surrogate: Gaussian-process regression with a dot-product kernel, and who looks feasible.

k(x, x') = σ₀² + x·x' + σₙ²·1[x = x'] is the kernel of a linear model whose constant has the prior
N(0, σ₀²) and whose slopes N(0, 1). So its posterior is that of as many weights as there are
columns, whatever the number of rows, and a row more is a matrix of rank one more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

Floats = NDArray[np.float64]

WIDEST = (1e-5, 1e5)
"""Where σ₀ and σₙ² are sought."""
STEPS = 8
"""Steps of Newton's method, each of at most 4 in any weight."""


class Surrogate:
    """Exact Gaussian-process regression, held as the precision of its weights."""

    def __init__(self, constant: float, noise: float) -> None:
        self.constant, self.noise = constant, noise
        self._precision: Floats | None = None
        self._moment: Floats | None = None

    def add(self, features: Floats, labels: Floats) -> None:
        """Learn from more rows."""
        rows = self._scaled(features)
        if self._precision is None or self._moment is None:
            self._precision, self._moment = np.eye(rows.shape[1]), np.zeros(rows.shape[1])
        self._precision = self._precision + rows.T @ rows / self.noise
        self._moment = self._moment + rows.T @ labels / self.noise

    def mean(self, features: Floats) -> Floats:
        """The posterior mean of the function at each row."""
        assert self._precision is not None
        weights = linalg.solve(self._precision, self._moment, assume_a="pos")
        return np.asarray(self._scaled(features) @ weights)

    def variance(self, features: Floats) -> Floats:
        """The posterior variance of the function, not of its noisy labels, at each row."""
        assert self._precision is not None
        root = linalg.cholesky(self._precision, lower=True)
        inverse = linalg.solve_triangular(root, np.eye(len(root)), lower=True)
        return np.asarray(((self._scaled(features) @ inverse.T) ** 2).sum(axis=1))

    def log_evidence(self, features: Floats, labels: Floats) -> float:
        """The log-likelihood of the rows it was given, which it does not keep, by its kernel.

        By the weights' mode rather than the kernel matrix, which has as many rows and is singular
        but for the noise.
        """
        assert self._precision is not None
        root = linalg.cho_factor(self._precision, lower=True)
        weights = linalg.cho_solve(root, self._moment)
        missed = labels - self._scaled(features) @ weights
        fit = missed @ missed / self.noise + weights @ weights
        size = 2 * np.log(np.diag(root[0])).sum() + len(labels) * np.log(2 * np.pi * self.noise)
        return float(-(fit + size) / 2)

    def _scaled(self, features: Floats) -> Floats:
        return np.column_stack([np.full(len(features), self.constant), features])


def fitted(features: Floats, labels: Floats, constant: float, noise: float) -> Surrogate:
    """The surrogate whose σ₀ and σₙ² make the labels likeliest, sought from those given."""

    def loss(logs: Floats) -> float:
        sigma, level = np.exp(logs)
        model = Surrogate(sigma, level)
        model.add(features, labels)
        return -model.log_evidence(features, labels)

    start, bounds = np.log([constant, noise]), [tuple(np.log(WIDEST))] * 2
    sigma, level = np.exp(optimize.minimize(loss, start, method="L-BFGS-B", bounds=bounds).x)
    found = Surrogate(float(sigma), float(level))
    found.add(features, labels)
    return found


def log_feasibility(rows: Floats, infeasible: NDArray[np.bool_], asked: Floats) -> Floats:
    """Log of how likely each row asked about is feasible: logistic regression with a unit ridge.

    Columns are taken to be on one scale. The slopes are penalized, the constant is not.
    """
    rows = np.column_stack([np.ones(len(rows)), rows])
    ridge = np.diag([1e-6] + [1.0] * (rows.shape[1] - 1))
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (likely - ~infeasible) + ridge @ weights
        bend = (rows * (likely * (1 - likely))[:, None]).T @ rows + ridge
        move = np.linalg.solve(bend, slope)
        weights = weights - move * min(1.0, 4.0 / max(np.abs(move).max(), 1e-12))
    return -np.log1p(np.exp(-(asked @ weights[1:] + weights[0])))
