"""Gaussian policies: a mean, with a scale per coordinate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.arrays import Floats, shown
from tether._core.contexts import length
from tether.policies.policy import CheckedPolicy

HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))


class Gaussian(CheckedPolicy):
    """Actions with normal noise around a mean: numbers, or vectors if the mean is a vector.

    Parameters
    ----------
    mean : float, array-like or callable
        A number, a vector, or a function of the contexts that returns one row per context.
    scale : float, array-like or callable, default 1.0
        Standard deviations, in any of the same forms; for correlated coordinates use a
        `FunctionPolicy`.

    Examples
    --------
    >>> policy = Gaussian(mean=lambda contexts: 2 * contexts, scale=0.5)
    >>> policy.log_prob(np.array([0.0, 1.0]), np.array([0.0, 2.0])).round(3)
    array([-0.226, -0.226])
    """

    def __init__(
        self,
        mean: ArrayLike | Callable[[Any], ArrayLike],
        scale: ArrayLike | Callable[[Any], ArrayLike] = 1.0,
    ) -> None:
        self._mean = mean if callable(mean) else _check("mean", mean)
        self._scale = scale if callable(scale) else _check("scale", scale)
        if not callable(mean) and not callable(scale):
            self._parameters(1)  # raises now if the shapes do not match

    def __repr__(self) -> str:
        return f"Gaussian(mean {'a function' if callable(self._mean) else self._mean})"

    def _sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        mean, scale, action_shape = self._parameters(contexts)
        noise = rng.standard_normal((length(contexts), *action_shape))
        noise *= scale
        noise += mean
        return noise

    def _log_prob(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        actions = actions.astype(np.float64)
        mean, scale, action_shape = self._parameters(contexts)
        if actions.shape[1:] != action_shape:
            raise ValueError(
                f"actions has shape {actions.shape}, expected {(length(contexts), *action_shape)}"
            )
        off = (actions - mean) / scale
        np.square(off, out=off)
        off *= -0.5
        off -= np.log(scale) + HALF_LOG_TWO_PI
        return off if off.ndim == 1 else np.asarray(off.sum(axis=1))

    def _parameters(self, contexts: Any) -> tuple[Floats, Floats, tuple[int, ...]]:
        """Mean and scale, one row per context or one for all, and the shape of one action."""
        mean = self._evaluate("mean", self._mean, contexts)
        scale = self._evaluate("scale", self._scale, contexts)
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
    def _evaluate(name: str, parameter: Any, contexts: Any) -> Floats:
        """The value of a parameter in the contexts, with a leading axis of contexts."""
        if not callable(parameter):
            return np.asarray(parameter[None])
        values = np.asarray(parameter(contexts), dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != length(contexts):
            raise ValueError(
                f"{name} returned shape {values.shape} for {length(contexts)} context(s); "
                f"expected one number or one vector per context"
            )
        return _check(name, values, 2)


def _check(name: str, values: ArrayLike, dimensions: int = 1) -> Floats:
    """Finite numbers, above 0 for a scale, in at most so many dimensions."""
    if np.ndim(values) > dimensions:
        raise ValueError(
            f"{name} must be a number or a vector for one action, got shape {np.shape(values)}; "
            f"to depend on contexts, pass a function"
        )
    array = validate.floats(name, values, ndim=np.ndim(values), finite=True)
    if name == "scale" and not (array > 0).all():
        raise ValueError(f"scale must be above 0, got {shown(array)}")
    return array
