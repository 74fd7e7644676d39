"""Mixtures: each action comes from one of several policies, chosen at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, length, take
from tether._core.plain_arrays import plain_column
from tether._core.shown import MAX_VALUES
from tether._core.types import Actions, Contexts, Floats
from tether.control.mixture_density import mixture_log_density
from tether.policies.policy import PolicyLike, as_policy, shared_actions


class Mixture:
    """Draw each action from policy k with probability proportional to weight k.

    The mixture of the policies that produced a log, weighted by how many rows each produced, is the
    denominator of the importance weights of the log.

    Parameters
    ----------
    policies : list or tuple of Policy
        At least one policy.
    weights : array-like of float
        One non-negative weight per policy, not all 0.

    Raises
    ------
    TypeError
        If `policies` is not a non-empty list of policies.
    ValueError
        If a weight is negative or not finite, all are 0, or there is not one per policy.

    Examples
    --------
    >>> from tether import Gaussian
    >>> Mixture([Gaussian(0.0), Gaussian(5.0)], weights=[3, 1]).log_prob(2, [0.0, 5.0]).round(3)
    array([-1.207, -2.305])
    """

    def __init__(self, policies: Sequence[PolicyLike], weights: ArrayLike) -> None:
        if not isinstance(policies, (list, tuple)) or not policies:
            raise TypeError(f"policies must be a list of at least one policy, got {policies!r}")
        self.policies = tuple(
            as_policy(f"policies[{k}]", policy) for k, policy in enumerate(policies)
        )
        weight = validate.floats("weights", weights)
        validate.same_length("weights", weight, "policies", len(self.policies))
        valid = (weight >= 0) & (weight < np.inf)
        if not valid.all():
            validate.reject("weights", weight, ~valid, "a finite weight of at least 0")
        if not weight.any():
            raise ValueError("weights must not all be 0")
        weight = weight / weight.max()  # so that their sum does not overflow
        self.weights: Floats = validate.frozen(weight / weight.sum())
        self.actions = shared_actions(
            self.policies, [f"policies[{k}]" for k in range(len(self.policies))]
        )

    def __repr__(self) -> str:
        pairs = list(zip(self.weights, self.policies, strict=True))
        parts = [f"{weight:.4g} of {policy!r}" for weight, policy in pairs[:MAX_VALUES]]
        more = f", … ({len(pairs)} in all)" if len(pairs) > len(parts) else ""
        return f"Mixture({', '.join(parts)}{more})"

    @classmethod
    def blend(cls, optimized: PolicyLike, safe: PolicyLike, safe_share: float = 0.01) -> Self:
        """Blend a share of the safe policy into an optimized policy: (1 − δ)·optimized + δ·safe.

        The safe policy is then absolutely continuous with respect to the blend: every action of the
        safe policy is possible. Actions that only the optimized policy takes remain impossible for
        the safe policy.

        Parameters
        ----------
        optimized : Policy
            The optimized policy.
        safe : Policy
            The safe policy.
        safe_share : float, default 0.01
            The share δ of the safe policy, above 0 and below 1.

        Returns
        -------
        Mixture
            The blended policy.

        Raises
        ------
        ValueError
            If `safe_share` is outside (0, 1).
        """
        safe_share = validate.number("safe_share", safe_share, above=0, below=1)
        return cls([optimized, safe], [1 - safe_share, safe_share])

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one action per context, each from one of the policies.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray
            One action per context.

        Raises
        ------
        ValueError
            If the policies draw actions of different shapes.
        """
        validate.generator("rng", rng)
        contexts = as_contexts(contexts)
        chosen = rng.choice(len(self.policies), size=length(contexts), p=self.weights)
        rows_drawn, pieces = [], []
        for k, policy in enumerate(self.policies):
            rows = np.flatnonzero(chosen == k)
            if len(rows):
                rows_drawn.append(rows)
                pieces.append(
                    policy_calls.draw(f"mixture's {k}", policy, take(contexts, rows), rng)
                )
        drawn = policy_calls.concatenate_actions(pieces)
        actions = np.empty_like(drawn)
        actions[np.concatenate(rows_drawn)] = drawn
        return actions

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Compute the log of the weighted average of the policies' probabilities.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        actions : array-like
            One action per context.

        Returns
        -------
        ndarray
            One log-probability or log-density per action.
        """
        actions = plain_column("actions", actions)
        contexts = as_contexts(contexts, actions)
        columns = [
            policy_calls.score(f"mixture's {k}", policy, contexts, actions)
            for k, policy in enumerate(self.policies)
        ]
        return mixture_log_density(columns, self.weights)

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Compute the log-probability of every action, if all policies share finitely many.

        Parameters
        ----------
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.

        Returns
        -------
        ndarray of shape (contexts, actions) or (1, actions)
            One row per context; a single row if all contexts are alike.

        Raises
        ------
        TypeError
            If a policy of the mixture does not have finitely many actions.
        """
        if self.actions is None:
            raise TypeError("not every policy of this mixture has finitely many actions")
        contexts = as_contexts(contexts)
        tables = np.broadcast_arrays(
            *(
                policy_calls.table(f"mixture's {k}", policy, contexts)
                for k, policy in enumerate(self.policies)
            )
        )
        flat = mixture_log_density([table.ravel() for table in tables], self.weights)
        return flat.reshape(tables[0].shape)
