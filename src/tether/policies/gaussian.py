"""Gaussian policies: a mean, and a scale for each coordinate or one covariance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import as_contexts, length
from tether._core.types import Floats
from tether._core.validate import reject

HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))


class Gaussian:
    """Actions with normal noise around a mean: numbers, or vectors if the mean is a vector.

    `mean` and `scale` (standard deviations) are numbers, vectors, or functions of the contexts that
    return one row each. `covariance` in place of `scale` correlates the coordinates.

    >>> policy = Gaussian(mean=lambda contexts: 2 * contexts, scale=0.5)
    >>> policy.log_prob(np.array([0.0, 1.0]), np.array([0.0, 2.0])).round(3)
    array([-0.226, -0.226])
    """

    def __init__(self, mean: Any, scale: Any = None, *, covariance: Any = None) -> None:
        if scale is not None and covariance is not None:
            raise ValueError("give scale or covariance, not both")
        self._mean = mean if callable(mean) else _vector("mean", _finite("mean", mean))
        self._scale: Callable[[Any], Any] | Floats | None = None
        self._root: Floats | None = None
        if covariance is not None:
            self._root = _root(covariance)
            self._whiten = np.linalg.inv(self._root)
            self._log_volume = float(np.log(np.diag(self._root)).sum())
        elif callable(scale):
            self._scale = scale
        else:
            self._scale = _vector("scale", _positive("scale", 1.0 if scale is None else scale))
        if not callable(mean) and not callable(scale):
            self._parameters(1)  # they fit together, or it is said now

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """The mean in each context plus noise."""
        policy_calls.generator(rng)
        contexts = as_contexts(contexts)
        mean, scale, size = self._parameters(contexts)
        noise = rng.standard_normal((length(contexts), *size))
        if self._root is not None:
            noise = noise @ self._root.T
        else:
            noise *= scale
        noise += mean
        return noise

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-density, summed over coordinates."""
        actions = np.asarray(actions, dtype=np.float64)
        contexts = as_contexts(contexts, actions)
        mean, scale, size = self._parameters(contexts)
        if actions.shape[1:] != size:
            raise ValueError(
                f"actions has shape {actions.shape}, expected {(length(contexts), *size)}"
            )
        off = actions - mean
        if self._root is not None:
            off = off @ self._whiten.T
            constant = self._log_volume + HALF_LOG_TWO_PI * off.shape[1]
            return np.asarray(-0.5 * np.einsum("ij,ij->i", off, off) - constant)
        off /= scale
        np.square(off, out=off)
        off *= -0.5
        off -= np.log(scale) + HALF_LOG_TWO_PI
        return off if off.ndim == 1 else np.asarray(off.sum(axis=1))

    def _parameters(self, contexts: Any) -> tuple[Floats, Floats, tuple[int, ...]]:
        """Mean and scale, with a row a context or one for all, and the shape of one action."""
        mean = self._answered("mean", self._mean, contexts)
        if self._root is not None:
            if mean.shape[1:] != (len(self._root),):
                raise ValueError(
                    f"mean has shape {mean.shape[1:]} but covariance is of {len(self._root)} "
                    f"coordinates"
                )
            return mean, np.ones(1), mean.shape[1:]
        scale = self._answered("scale", self._scale, contexts)
        if mean.ndim < scale.ndim:
            mean = mean[:, None]
        elif scale.ndim < mean.ndim:
            scale = scale[:, None]
        try:
            return mean, scale, np.broadcast_shapes(mean.shape[1:], scale.shape[1:])
        except ValueError as error:
            raise ValueError(
                f"mean has {mean.shape[1]} coordinates but scale has {scale.shape[1]}"
            ) from error

    @staticmethod
    def _answered(name: str, parameter: Any, contexts: Any) -> Floats:
        if not callable(parameter):
            return np.asarray(parameter[None])
        values = np.asarray(parameter(contexts), dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != length(contexts):
            raise ValueError(
                f"{name} returned shape {values.shape} for {length(contexts)} context(s); "
                f"expected a number or a vector for each"
            )
        return _positive(name, values) if name == "scale" else _finite(name, values)


def _finite(name: str, values: Any) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold real numbers, got {values!r}") from error
    if not np.isfinite(array).all():
        reject(name, np.atleast_1d(array), ~np.isfinite(np.atleast_1d(array)), "a finite number")
    return array


def _vector(name: str, array: Floats) -> Floats:
    if array.ndim > 1 or array.size == 0:
        raise ValueError(
            f"{name} must be a number or a vector for one action, got shape {array.shape}; "
            f"for one a context pass a function"
        )
    return array


def _positive(name: str, values: Any) -> Floats:
    array = _finite(name, values)
    if not (array > 0).all():
        reject(name, np.atleast_1d(array), np.atleast_1d(array) <= 0, "a number above 0")
    return array


def _root(covariance: Any) -> Floats:
    """The lower Cholesky factor."""
    array = _finite("covariance", covariance)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not np.allclose(array, array.T):
        raise ValueError(f"covariance must be a symmetric matrix, got shape {array.shape}")
    try:
        return np.asarray(np.linalg.cholesky(array))
    except np.linalg.LinAlgError as error:
        raise ValueError("covariance must be positive definite") from error
