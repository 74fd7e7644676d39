"""The interface of a policy, which draws actions and states their log-probabilities; tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.arrays import (
    Actions,
    Contexts,
    Floats,
    Integers,
    few,
    plain_array,
    plain_column,
    shown,
)
from tether._core.contexts import as_contexts, length
from tether.sampling.samplers import sample_categorical

TO_KNOW_MORE_ACTIONS = (
    "A classifier whose training rows lack some actions gives them probability 0 if it is passed "
    "as tether.Categorical.from_classifier(model, actions=all_actions)"
)
"""What to do about a model that knows too few actions."""
OUTCOMES = (
    "A model that predicts an outcome is not a policy: predict it for each action, and pass "
    "tether.Categorical.from_probabilities a function that returns the best"
)
TO_PREDICT_PROBABILITIES = (
    "pass the model itself, not its predict_proba; wrap a classifier without one in sklearn's "
    "CalibratedClassifierCV; where a number is predicted for each action, pass "
    "tether.Categorical.from_logits(function, actions=..., temperature=...)"
)


class Sampler(Protocol):
    """What is needed of a policy that only draws."""

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """One action per context."""


@runtime_checkable
class Policy(Protocol):
    """The two vectorized methods of a policy; any object that has them is a policy.

    Scores are natural logarithms, and must be of the distribution that `sample` really draws from.

    Examples
    --------
    >>> from tether import Gaussian
    >>> isinstance(Gaussian(0.0), Policy)
    True
    """

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context; `rng` is the only source of randomness.

        Contexts have one row each, or are the number of actions where there are none.
        """
        ...

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """Compute the log-probability or log-density of each action in its context.

        −inf is an impossible action.
        """
        ...


@runtime_checkable
class FinitePolicy(Policy, Protocol):
    """A policy over finitely many actions, all of which can be scored at once."""

    @property
    def actions(self) -> NDArray[Any]:
        """Every action, in the order of the columns of `log_prob_all`."""
        ...

    def log_prob_all(self, contexts: Any) -> Floats:
        """Compute the log-probability of every action in each context."""
        ...


class CheckedPolicy:
    """Checks contexts, actions and generators, and leaves the rest to `_sample` and `_log_prob`."""

    _sample: Callable[[Any, np.random.Generator], Any]
    _log_prob: Callable[[Any, NDArray[Any]], Any]

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context."""
        validate.generator("rng", rng)
        return plain_array(self._sample(as_contexts(contexts), rng))

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Compute the log-probability or log-density of each action in its context."""
        actions = plain_column("actions", actions)
        scores = self._log_prob(as_contexts(contexts, actions), actions)
        return np.asarray(scores, dtype=np.float64)


class TablePolicy(CheckedPolicy, ABC):
    """Scores and draws from `log_prob_all`, which a subclass defines."""

    actions: NDArray[Any]
    """Every action."""

    @abstractmethod
    def log_prob_all(self, contexts: Contexts) -> Floats:
        """The log-probability of every action in each context; one row if all are alike."""

    def _log_prob(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        columns = positions(self.actions, actions)
        return picked(self.log_prob_all(contexts), columns)

    def _sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        columns = sample_categorical(self.log_prob_all(contexts), length(contexts), rng)
        return np.asarray(self.actions[columns])


def positions(known: NDArray[Any], actions: Actions, name: str | None = None) -> Integers:
    """The position of each action among the known ones; an unknown action is an error."""
    actions = plain_column("actions", actions)
    if actions.ndim != 1:
        raise ValueError(f"actions must have 1 dimension, got shape {actions.shape}")
    order = np.argsort(known, kind="stable")
    try:
        found = order[np.minimum(np.searchsorted(known, actions, sorter=order), len(known) - 1)]
        unknown = known[found] != actions
    except TypeError as error:
        raise TypeError(
            f"actions must be among {few(known)}, got {few(actions)}. {OUTCOMES}"
        ) from error
    if unknown.any():
        lacking = np.unique(actions[unknown])
        whose = "" if name is None else f" of the {name} policy. {TO_KNOW_MORE_ACTIONS}"
        raise ValueError(
            f"actions has {few(lacking)} in {int(unknown.sum()):,} of {len(actions):,} rows, first "
            f"in row {int(np.argmax(unknown))}: expected one of {few(known)}, the {len(known)} "
            f"actions{whose}. {OUTCOMES}"
        )
    return np.asarray(found, dtype=np.int64)


def picked(table: Floats, columns: Integers) -> Floats:
    """One entry per row of a table, in the given columns; a single row is used for all."""
    if len(table) == 1:
        return np.asarray(table[0][columns])
    return np.asarray(table[np.arange(len(columns)), columns])


PolicyLike: TypeAlias = Any
"""What `as_policy` accepts: a policy or a scikit-learn classifier."""


def is_finite(policy: Policy) -> TypeGuard[FinitePolicy]:
    """Whether every action of the policy can be listed and scored."""
    return getattr(policy, "actions", None) is not None and hasattr(policy, "log_prob_all")


def shared_actions(
    policies: Sequence[Policy], names: Sequence[str] = ("safe", "optimized", "logged_by")
) -> NDArray[Any] | None:
    """The finitely many actions that all policies have; None if a policy has infinitely many.

    They are in the order of the first policy: the classes of a classifier are sorted, and what
    a user lists is not. `names` are what errors call the policies; further ones are called by their
    position.
    """
    finite = [policy for policy in policies if is_finite(policy)]
    if len(finite) < len(policies):
        return None
    first = finite[0].actions
    for place, policy in enumerate(finite[1:], start=1):
        if not np.array_equal(np.sort(first), np.sort(policy.actions)):
            name = names[place] if place < len(names) else f"policy {place}"
            raise ValueError(
                f"the policies {names[0]} and {name} have different actions: "
                f"{different_actions(names[0], first, name, policy.actions)}"
            )
    return first


def different_actions(first_name: str, first: Any, second_name: str, second: Any) -> str:
    """How two lists of actions differ, in words."""
    known = {first_name: np.asarray(first).tolist(), second_name: np.asarray(second).tolist()}
    only = [
        f"{few(np.array(sorted(extra)))} only in {name}"
        for name, other in ((first_name, second_name), (second_name, first_name))
        if (extra := set(known[name]) - set(known[other]))
    ]
    return f"{', '.join(only)}; both must list the same actions, each once. {TO_KNOW_MORE_ACTIONS}"


def as_policy(name: str, policy: Any) -> Policy:
    """Return a policy, converting a classifier into one."""
    if isinstance(policy, type):
        raise TypeError(f"{name} must be a policy, not a class: write {policy.__name__}(…)")
    if isinstance(policy, Policy):
        return policy
    if hasattr(policy, "predict_proba"):
        from tether.policies.categorical import Categorical

        return Categorical.from_classifier(policy)
    raise TypeError(
        f"{name} must be a policy (an object with sample and log_prob) or a scikit-learn "
        f"classifier, got {shown(policy)}; {TO_PREDICT_PROBABILITIES}"
    )


@dataclass(frozen=True)
class FunctionSampler:
    """A function of (contexts, rng) as a sampler."""

    function: Callable[[Any, np.random.Generator], Any]

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """What the function returns."""
        return np.asarray(self.function(contexts, rng))


def as_sampler(name: str, policy: Any) -> Sampler:
    """A policy, passed as the argument `name`, as something that draws."""
    if isinstance(policy, type) or hasattr(policy, "log_prob") or hasattr(policy, "predict_proba"):
        return as_policy(name, policy)
    if hasattr(policy, "sample") and not hasattr(policy, "iloc"):  # a frame's draws rows
        return policy  # type: ignore[no-any-return]
    if callable(policy):
        return FunctionSampler(policy)
    raise TypeError(
        f"{name} must be an object with sample(contexts, rng), or such a function, got "
        f"{shown(policy)}"
    )
