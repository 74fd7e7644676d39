"""Mixtures: each action comes from one of several policies, chosen by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, length, take
from tether._core.types import Floats
from tether.control.mixture_density import mixture_log_density
from tether.policies.policy import Policy, as_policy, is_finite


class Mixture:
    """Follows policy k with a probability proportional to weight k, anew for every action.

    The mixture of the policies that produced a log, weighted by their counts, is what the log's
    rows are weighed against.

    >>> from tether import Gaussian
    >>> Mixture([Gaussian(0.0), Gaussian(5.0)], weights=[3, 1]).log_prob(2, [0.0, 5.0]).round(3)
    array([-1.207, -2.305])
    """

    def __init__(self, policies: Sequence[Any], weights: Any) -> None:
        if not isinstance(policies, (list, tuple)) or not policies:
            raise TypeError(f"policies must be a list of at least one policy, got {policies!r}")
        self.policies = tuple(as_policy(f"policies[{k}]", each) for k, each in enumerate(policies))
        weight = validate.floats("weights", weights)
        validate.same_length("weights", weight, "policies", len(self.policies))
        fine = (weight >= 0) & (weight < np.inf)
        if not fine.all():
            validate.reject("weights", weight, ~fine, "a finite weight of at least 0")
        if not weight.any():
            raise ValueError("weights must not all be 0")
        weight = weight / weight.max()  # so that their sum is a number
        self.weights: Floats = validate.frozen(weight / weight.sum())
        self.actions = shared_actions(self.policies)

    @classmethod
    def blend(cls, optimized: Any, safe: Any, delta: float = 0.01) -> Self:
        """(1 − δ)·optimized + δ·safe: an optimized policy that can do all that the safe one does.

        It makes the two absolutely continuous from the safe side; what only the optimized policy
        does stays outside the safe policy's reach.
        """
        delta = validate.number("delta", delta, above=0, below=1)
        return cls([optimized, safe], [1 - delta, delta])

    def sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        """One action in each context, each from one of the policies."""
        policy_calls.generator(rng)
        contexts = as_contexts(contexts)
        chosen = rng.choice(len(self.policies), size=length(contexts), p=self.weights)
        places, pieces = [], []
        for k, each in enumerate(self.policies):
            place = np.flatnonzero(chosen == k)
            if len(place):
                places.append(place)
                pieces.append(policy_calls.draw(f"mixture's {k}", each, take(contexts, place), rng))
        drawn = policy_calls.concatenate_actions(pieces)
        actions = np.empty_like(drawn)
        actions[np.concatenate(places)] = drawn
        return actions

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """Log of the weighted average of the policies' probabilities."""
        actions = np.asarray(actions)
        contexts = as_contexts(contexts, actions)
        columns = [
            policy_calls.score(f"mixture's {k}", each, contexts, actions)
            for k, each in enumerate(self.policies)
        ]
        return mixture_log_density(columns, self.weights)

    def log_prob_all(self, contexts: Any) -> Floats:
        """The same for every action, where all policies have the same finitely many."""
        if self.actions is None:
            raise TypeError("not every policy of this mixture has finitely many actions")
        contexts = as_contexts(contexts)
        tables = np.broadcast_arrays(
            *(
                policy_calls.table(f"mixture's {k}", each, contexts)
                for k, each in enumerate(self.policies)
            )
        )
        flat = mixture_log_density([each.ravel() for each in tables], self.weights)
        return flat.reshape(tables[0].shape)


def shared_actions(policies: Sequence[Policy]) -> NDArray[Any] | None:
    """The finitely many actions that all the policies have; None where some have more."""
    finite = [each for each in policies if is_finite(each)]
    if len(finite) < len(policies):
        return None
    first = finite[0].actions
    for each in finite[1:]:
        if not np.array_equal(first, each.actions):
            raise ValueError(
                f"the policies have different actions: {_shown(first)} and {_shown(each.actions)}; "
                f"they must list the same ones in the same order"
            )
    return first


def _shown(actions: NDArray[Any]) -> str:
    return f"[{', '.join(map(repr, actions[:6].tolist()))}{', …' if len(actions) > 6 else ''}]"
