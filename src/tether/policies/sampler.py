"""What draws candidates: a safe policy of which only draws are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tether._core.shown import shown
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
    return as_named_sampler("safe", safe)


def as_named_sampler(name: str, policy: Any) -> Sampler:
    """A policy, passed as the argument `name`, as something that draws."""
    if isinstance(policy, type):
        raise TypeError(f"{name} must be a sampler, not a class: write {policy.__name__}(…)")
    if hasattr(policy, "iloc"):  # its `sample` draws rows
        raise TypeError(f"{name} must draw actions, got {shown(policy)}")
    if hasattr(policy, "sample") and not hasattr(policy, "log_prob"):
        return policy  # type: ignore[no-any-return]
    if hasattr(policy, "sample") or hasattr(policy, "predict_proba"):
        return as_policy(name, policy)
    if callable(policy):
        return FunctionSampler(policy)
    raise TypeError(
        f"{name} must be an object with sample(contexts, rng), or such a function, got "
        f"{shown(policy)}"
    )
