"""What a policy is: something that acts, and says how likely each action was."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats


@runtime_checkable
class Policy(Protocol):
    """Two vectorized methods; any object that has them is a policy.

    `contexts` is an array with one row a context, or a number n for n actions without context.
    Scores are natural logarithms, and of the distribution that `sample` really draws from.
    """

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """One action for each context, drawn with the generator that is passed in."""
        ...

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-probability or log-density of each action in its context."""
        ...


@runtime_checkable
class FinitePolicy(Policy, Protocol):
    """A policy over finitely many actions, of which every score can be listed."""

    @property
    def actions(self) -> NDArray[Any]:
        """Every action, in the order of the columns of `log_prob_all`."""
        ...

    def log_prob_all(self, contexts: Any) -> Floats:
        """A row a context, a column an action; a single row where all contexts are alike."""
        ...


def is_finite(policy: Policy) -> TypeGuard[FinitePolicy]:
    """Whether the scores of every action can be listed."""
    return getattr(policy, "actions", None) is not None and hasattr(policy, "log_prob_all")


def as_policy(name: str, policy: Any) -> Policy:
    """The policy that the user passed; a classifier or torch distribution is made into one."""
    from tether.policies.categorical import Categorical
    from tether.policies.torch_policy import TorchPolicy

    if isinstance(policy, type):
        raise TypeError(f"{name} must be a policy, not a class: write {policy.__name__}(…)")
    if any(base.__module__.startswith("torch.distributions") for base in type(policy).__mro__):
        return TorchPolicy(policy)
    if isinstance(policy, Policy):
        return policy
    if hasattr(policy, "predict_proba"):
        return Categorical.from_classifier(policy)
    raise TypeError(
        f"{name} must be a policy (an object with sample and log_prob), a scikit-learn classifier "
        f"or a torch distribution, got {policy!r}"
    )
