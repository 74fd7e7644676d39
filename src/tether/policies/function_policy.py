"""A policy made of two functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import validate
from tether._core.contexts import as_contexts
from tether._core.plain_arrays import plain_array, plain_column
from tether._core.types import Actions, Contexts, Floats


class FunctionPolicy:
    """A policy whose draws and scores come from two functions.

    The functions must agree: `log_prob` must score the distribution that `sample` draws from. What
    they return is checked at every call.

    Parameters
    ----------
    sample : callable
        Function of (contexts, rng) that returns one action per context.
    log_prob : callable
        Function of (contexts, actions) that returns one log-probability per action.
    name : str, default "function"
        Name of the policy.

    Raises
    ------
    TypeError
        If `sample` or `log_prob` is not callable.

    Examples
    --------
    >>> uniform = FunctionPolicy(
    ...     sample=lambda contexts, rng: rng.random(contexts),
    ...     log_prob=lambda contexts, actions: np.where((actions >= 0) & (actions < 1), 0, -np.inf),
    ... )
    >>> uniform.log_prob(3, [0.5, 0.1, 2.0])
    array([  0.,   0., -inf])
    """

    def __init__(
        self,
        sample: Callable[[Any, np.random.Generator], ArrayLike],
        log_prob: Callable[[Any, NDArray[Any]], ArrayLike],
        *,
        name: str = "function",
    ) -> None:
        for argument, value in (("sample", sample), ("log_prob", log_prob)):
            if not callable(value):
                raise TypeError(f"{argument} must be a function, got {value!r}")
        self.name = name
        self._sample, self._log_prob = sample, log_prob

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context with the first function.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            Source of randomness, passed on to the function.

        Returns
        -------
        ndarray
            What the function returns.
        """
        validate.generator("rng", rng)
        return plain_array(self._sample(as_contexts(contexts), rng))

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score actions with the second function.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        actions : array-like
            One action per context.

        Returns
        -------
        ndarray
            What the function returns, as floats.
        """
        actions = plain_column("actions", actions)
        return np.asarray(self._log_prob(as_contexts(contexts, actions), actions), dtype=np.float64)
