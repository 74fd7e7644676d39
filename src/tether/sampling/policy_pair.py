"""The safe and the optimized policy together, as the source of proposed actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import length, take
from tether._core.types import Booleans, Contexts, Floats

if TYPE_CHECKING:
    from tether.policies.policy import Policy


@dataclass(frozen=True)
class ScoredDraws:
    """Drawn actions with their log ratios.

    Parameters
    ----------
    actions : ndarray
        The drawn actions, one per row.
    log_ratio : ndarray
        Log ratio, log π_t − log π₀, of each action.
    from_safe : ndarray of bool
        Whether the safe policy drew the action; otherwise the optimized policy did.
    """

    actions: NDArray[Any]
    log_ratio: Floats
    from_safe: Booleans


@dataclass(frozen=True)
class PolicyPair:
    """A safe and an optimized policy that propose actions.

    Parameters
    ----------
    safe : Policy
        The safe policy.
    optimized : Policy
        The optimized policy.
    strict : bool, default True
        Whether an action of the optimized policy that has probability 0 under the safe policy is
        an error. If False, such actions are only scored, and clip never accepts them.

    Examples
    --------
    >>> from tether import Gaussian
    >>> pair = PolicyPair(Gaussian(0.0), Gaussian(1.0))
    >>> pair.propose(0.5, 4, np.random.default_rng(0)).from_safe
    array([False,  True,  True,  True])
    """

    safe: Policy
    optimized: Policy
    strict: bool = True

    def propose(
        self, safe_weight: float, contexts: Contexts, rng: np.random.Generator
    ) -> ScoredDraws:
        """Draw one action per context from w·safe + (1 − w)·optimized and score it under both.

        Parameters
        ----------
        safe_weight : float
            The weight w of the safe policy, in [0, 1].
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ScoredDraws
            The actions, their log ratios, and which policy drew them.

        Raises
        ------
        ValueError
            If a policy returns invalid actions or scores, or if the pair is strict and the safe
            policy cannot take an action of the optimized policy.
        """
        validate.generator("rng", rng)
        count = length(contexts)
        if safe_weight == 1.0:
            from_safe = np.ones(count, dtype=np.bool_)
        elif safe_weight == 0.0:
            from_safe = np.zeros(count, dtype=np.bool_)
        else:
            from_safe = rng.random(count) < safe_weight
        actions = self.draw(from_safe, contexts, rng)
        log_safe, log_optimized = policy_calls.score_both(
            self.safe,
            self.optimized,
            contexts,
            actions,
            drew_safe=from_safe,
            drew_optimized=~from_safe,
        )
        if self.strict and safe_weight < 1.0:
            policy_calls.check_absolute_continuity(log_safe, log_optimized)
        return ScoredDraws(actions, log_optimized - log_safe, from_safe)

    def draw(
        self, from_safe: Booleans, contexts: Contexts, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Draw one action per context from the policy chosen for it.

        Parameters
        ----------
        from_safe : ndarray of bool
            Whether the safe policy draws in each context; otherwise the optimized policy does.
        contexts : array-like or int
            One row per context, or the number of actions where there are no contexts.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray
            One action per context.
        """
        if from_safe.all():
            return policy_calls.draw("safe", self.safe, contexts, rng)
        if not from_safe.any():
            return policy_calls.draw("optimized", self.optimized, contexts, rng)
        safe_rows, optimized_rows = np.flatnonzero(from_safe), np.flatnonzero(~from_safe)
        drawn = policy_calls.concatenate_actions(
            [
                policy_calls.draw("safe", self.safe, take(contexts, safe_rows), rng),
                policy_calls.draw("optimized", self.optimized, take(contexts, optimized_rows), rng),
            ]
        )
        actions = np.empty_like(drawn)
        actions[np.concatenate([safe_rows, optimized_rows])] = drawn
        return actions
