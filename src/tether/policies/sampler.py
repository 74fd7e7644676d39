"""What draws candidates: a safe policy of which only draws are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tether.policies.policy import as_policy


class Sampler(Protocol):
    """What is needed of a safe policy: it draws."""

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """One action per context."""
        ...


class FunctionSampler:
    """A function of (contexts, rng) as a sampler."""

    def __init__(self, function: Callable[[Any, np.random.Generator], Any]) -> None:
        self._function = function

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """What the function returns."""
        return np.asarray(self._function(contexts, rng))


def as_sampler(safe: Any) -> Sampler:
    """The safe policy as something that draws; its log-probabilities are optional."""
    if isinstance(safe, type):
        raise TypeError(f"safe must be a sampler, not a class: write {safe.__name__}(…)")
    if hasattr(safe, "sample") and not hasattr(safe, "log_prob"):
        return safe  # type: ignore[no-any-return]
    if hasattr(safe, "sample") or hasattr(safe, "predict_proba"):
        return as_policy("safe", safe)
    if callable(safe):
        return FunctionSampler(safe)
    raise TypeError(
        f"safe must be an object with sample(contexts, rng), or such a function, got {safe!r}"
    )
