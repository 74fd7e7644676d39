"""A policy out of two functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import as_contexts
from tether._core.types import Floats


class FunctionPolicy:
    """Wraps `sample(contexts, rng)` and `log_prob(contexts, actions)`, whatever is behind them.

    Promises nothing but what the functions do; what they return is checked at every call.

    >>> uniform = FunctionPolicy(
    ...     sample=lambda contexts, rng: rng.random(contexts),
    ...     log_prob=lambda contexts, actions: np.where((actions >= 0) & (actions < 1), 0, -np.inf),
    ... )
    >>> uniform.log_prob(3, [0.5, 0.1, 2.0])
    array([  0.,   0., -inf])
    """

    def __init__(
        self,
        sample: Callable[[Any, np.random.Generator], Any],
        log_prob: Callable[[Any, NDArray[Any]], Any],
        *,
        name: str = "function",
    ) -> None:
        for argument, value in (("sample", sample), ("log_prob", log_prob)):
            if not callable(value):
                raise TypeError(f"{argument} must be a function, got {value!r}")
        self.name = name
        self._sample, self._log_prob = sample, log_prob

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """What the first function draws."""
        policy_calls.generator(rng)
        return np.asarray(self._sample(as_contexts(contexts), rng))

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """What the second function says."""
        actions = np.asarray(actions)
        return np.asarray(self._log_prob(as_contexts(contexts, actions), actions), dtype=np.float64)
