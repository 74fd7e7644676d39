"""The interface of a policy: it draws actions and states their log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tether._core.shown import shown
from tether._core.types import Floats
from tether.policies.different_actions import different_actions


@runtime_checkable
class Policy(Protocol):
    """The two vectorized methods of a policy; any object that has them is a policy.

    Scores are natural logarithms, and must be of the distribution that `sample` really draws from.

    Parameters
    ----------
    *args : Any
        Positional arguments of the class that implements the protocol.
    **kwargs : Any
        Keyword arguments of the class that implements the protocol.

    Examples
    --------
    >>> from tether import Gaussian
    >>> isinstance(Gaussian(0.0), Policy)
    True
    """

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        ndarray
            One action per context.
        """
        ...

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """Compute the log-probability or log-density of each action in its context.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        actions : array-like
            One action per context.

        Returns
        -------
        ndarray
            Natural logarithms, one per action; −inf for an impossible action.
        """
        ...


@runtime_checkable
class FinitePolicy(Policy, Protocol):
    """A policy over finitely many actions, all of which can be scored at once.

    Parameters
    ----------
    *args : Any
        Positional arguments of the class that implements the protocol.
    **kwargs : Any
        Keyword arguments of the class that implements the protocol.

    Examples
    --------
    >>> from tether import Pool
    >>> isinstance(Pool.uniform(3), FinitePolicy)
    True
    """

    @property
    def actions(self) -> NDArray[Any]:
        """Every action, in the order of the columns of `log_prob_all`."""
        ...

    def log_prob_all(self, contexts: Any) -> Floats:
        """Compute the log-probability of every action in each context.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.

        Returns
        -------
        ndarray of shape (contexts, actions) or (1, actions)
            One row per context and one column per action; a single row if all contexts are alike.
        """
        ...


class Classifier(Protocol):
    """What is used of a scikit-learn classifier."""

    classes_: Any

    def predict_proba(self, features: Any, /) -> Any:
        """One row per context, one column per class."""
        ...


class Distribution(Protocol):
    """What is used of a torch distribution."""

    def sample(self, shape: Any = ..., /) -> Any:
        """Draws."""
        ...

    def log_prob(self, value: Any, /) -> Any:
        """Log-probabilities of draws."""
        ...


PolicyLike: TypeAlias = "Policy | Classifier | Distribution"
"""What is accepted as a policy: see `as_policy`."""


def is_finite(policy: Policy) -> TypeGuard[FinitePolicy]:
    """Whether every action of the policy can be listed and scored."""
    return getattr(policy, "actions", None) is not None and hasattr(policy, "log_prob_all")


def shared_actions(
    policies: Sequence[Policy], names: Sequence[str] = ("safe", "optimized", "logged_by")
) -> NDArray[Any] | None:
    """The finitely many actions that all policies have; None if a policy has infinitely many.

    `names` are what errors call the policies; further ones are called by their position.
    """
    finite = [policy for policy in policies if is_finite(policy)]
    if len(finite) < len(policies):
        return None
    first = finite[0].actions
    for place, policy in enumerate(finite[1:], start=1):
        if not np.array_equal(first, policy.actions):
            name = names[place] if place < len(names) else f"policy {place}"
            raise ValueError(different_actions(names[0], first, name, policy.actions))
    return first


def as_policy(name: str, policy: Any) -> Policy:
    """Return a policy, converting a classifier or a torch distribution into one.

    Parameters
    ----------
    name : str
        Name of the argument, for error messages.
    policy : Policy, scikit-learn classifier or torch distribution
        What the user passed.

    Returns
    -------
    Policy
        The policy itself, or one that wraps the classifier or the distribution.

    Raises
    ------
    TypeError
        If it is none of these, or a class instead of an instance.

    Examples
    --------
    >>> from tether import Gaussian
    >>> type(as_policy("safe", Gaussian(0.0))).__name__
    'Gaussian'
    """
    from tether.policies.categorical import Categorical
    from tether.policies.probability_functions import no_probabilities_hint
    from tether.policies.torch_policy import TorchPolicy

    if isinstance(policy, type):
        raise TypeError(f"{name} must be a policy, not a class: write {policy.__name__}(…)")
    if any(base.__module__.startswith("torch.distributions") for base in type(policy).__mro__):
        return TorchPolicy(policy)
    if isinstance(policy, Policy):
        return policy
    if hasattr(policy, "predict_proba"):
        return Categorical.from_classifier(policy)
    if hasattr(policy, "picker_of"):
        raise TypeError(
            f"{name} is a shortlist, which has no log-probabilities of actions: use its own methods"
            f" make_log and tethered, or pass it to tether.Controller"
        )
    method = getattr(policy, "__name__", "")
    hint = f"; pass the model itself, not its {method}" if method.startswith("predict") else ""
    if hasattr(policy, "predict"):
        hint = no_probabilities_hint(policy) or (
            ": it predicts a number, not probabilities of actions. A function that predicts it "
            "for each action makes a policy: tether.Categorical.from_logits(function, actions=..., "
            "temperature=...)"
        )
    raise TypeError(
        f"{name} must be a policy (an object with sample and log_prob), a scikit-learn classifier "
        f"or a torch distribution, got {shown(policy)}{hint}"
    )
