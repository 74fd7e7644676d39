"""A policy that is drawn from by a sampler and scored by an estimated density ratio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core.types import Floats
from tether.policies.function_policy import FunctionPolicy
from tether.policies.mixture import Mixture
from tether.policies.policy import Policy
from tether.policies.tethered import Tethered


class EstimatedPolicy(FunctionPolicy):
    """A policy whose draws are exact and whose density, relative to the safe one's, is estimated.

    Parameters
    ----------
    name : str
        Which of the two policies it is: "safe" or "optimized".
    draw : callable
        Function of (contexts, rng) that returns one action per context.
    relative_log_density : callable
        Function of (contexts, actions): the log of this policy's density over the safe one's.
    approximate : str or None
        What is approximate about the density; None for the safe policy, whose ratio to itself is 1.
    ratio_error : float
        The factor by which the density may be off.

    Examples
    --------
    >>> policy = EstimatedPolicy(
    ...     "safe", lambda n, rng: rng.normal(size=n), lambda n, actions: np.zeros(len(actions))
    ... )
    >>> policy.log_prob(2, [0.3, 1.2])
    array([0., 0.])
    """

    def __init__(
        self,
        name: str,
        draw: Callable[[Any, np.random.Generator], ArrayLike],
        relative_log_density: Callable[[Any, NDArray[Any]], Floats],
        approximate: str | None = None,
        ratio_error: float = 1.0,
    ) -> None:
        super().__init__(draw, relative_log_density, name=name)
        self.approximate, self.ratio_error = approximate, ratio_error


def approximation_of(*policies: Policy) -> tuple[str | None, float]:
    """What is approximate about the densities of policies, and the largest factor they are off by.

    A policy says so by its attributes `approximate` and `ratio_error`; the parts of mixtures and of
    tethered policies are asked as well. (None, 1.0) where nothing is approximate.
    """
    sentence, error = None, 1.0
    for policy in policies:
        parts: tuple[Policy, ...] = ()
        if isinstance(policy, Mixture):
            parts = policy.policies
        elif isinstance(policy, Tethered):
            parts = (policy.safe, policy.optimized)
        inner, inner_error = approximation_of(*parts)
        sentence = sentence or getattr(policy, "approximate", None) or inner
        error = max(error, getattr(policy, "ratio_error", 1.0), inner_error)
    return sentence, error
