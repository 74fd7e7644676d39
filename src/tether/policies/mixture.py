"""Mixtures: each action comes from one of several policies, chosen at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import Contexts, Floats, few, shown
from tether._core.contexts import as_contexts, length
from tether.policies.policy import CheckedPolicy, Policy, PolicyLike, as_policy, shared_actions


class Mixture(CheckedPolicy):
    """Draw each action from policy k with probability proportional to weight k.

    The mixture of the policies that produced a log, weighted by how many rows each produced, is the
    denominator of the importance weights of the log.

    Parameters
    ----------
    policies : list or tuple of Policy
        At least one policy.
    weights : array-like of float
        One non-negative weight per policy, not all 0.

    Examples
    --------
    >>> from tether import Gaussian
    >>> Mixture([Gaussian(0.0), Gaussian(5.0)], weights=[3, 1]).log_prob(2, [0.0, 5.0]).round(3)
    array([-1.207, -2.305])
    """

    def __init__(self, policies: Sequence[PolicyLike], weights: ArrayLike) -> None:
        if not isinstance(policies, (list, tuple)) or not policies:
            raise TypeError(f"policies must be a list of at least one policy, got {policies!r}")
        names = [f"policies[{k}]" for k in range(len(policies))]
        self.policies = tuple(map(as_policy, names, policies))
        weight = validate.floats("weights", weights)
        validate.same_length("weights", weight, "policies", len(self.policies))
        total = weight.sum()  # of the weights of a mixture 1: they stay as they are
        if not (weight.min() >= 0 and 0 < total < np.inf):
            raise ValueError(f"weights must be finite, at least 0 and not all be 0, got {weight}")
        self.weights: Floats = validate.frozen(weight / (total if abs(total - 1) > 1e-12 else 1.0))
        self.actions = shared_actions(self.policies, names)

    def __repr__(self) -> str:
        return f"Mixture({shown(self.policies)}, weights=[{few(self.weights.round(4))}])"

    @classmethod
    def blend(cls, optimized: PolicyLike, safe: PolicyLike, safe_share: float = 0.01) -> Self:
        """Blend a share of the safe policy into an optimized policy: (1 − δ)·optimized + δ·safe.

        Every action of the safe policy is then possible. Actions that only the optimized policy
        takes remain impossible for the safe policy.
        """
        safe_share = validate.number("safe_share", safe_share, above=0, below=1)
        return cls([optimized, safe], [1 - safe_share, safe_share])

    def _sample(self, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
        chosen = rng.choice(len(self.policies), size=length(contexts), p=self.weights)
        return policy_calls.draw_chosen(self._by_name, chosen, contexts, rng)

    def _log_prob(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        scored = [policy_calls.score(*each, contexts, actions) for each in self._by_name.items()]
        return self._average(scored)

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Score every action, if all policies share finitely many; one row if all are alike."""
        if self.actions is None:
            raise TypeError("not every policy of this mixture has finitely many actions")
        contexts = as_contexts(contexts)
        by_name = self._by_name.items()
        tables = [policy_calls.table(*each, contexts, self.actions) for each in by_name]
        return self._average(tables)

    @property
    def _by_name(self) -> dict[str, Policy]:
        """The policies, as errors call them."""
        return {f"mixture's number-{k}": policy for k, policy in enumerate(self.policies)}

    def _average(self, logs: list[Floats]) -> Floats:
        """The log of the weighted average of arrays that broadcast."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        shifted = [each + weight for each, weight in zip(logs, log_weights, strict=True)]
        return np.asarray(np.logaddexp.reduce(np.broadcast_arrays(*shifted), axis=0))
