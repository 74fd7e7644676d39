"""The safe and the optimized policy together, as the source of proposed actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.arrays import Booleans, Contexts, Floats
from tether._core.contexts import length, take

if TYPE_CHECKING:
    from tether.policies.policy import Policy


@dataclass(frozen=True)
class ScoredDraws:
    """Drawn actions, their log ratios, and whether the safe policy drew them."""

    actions: NDArray[Any]
    log_ratio: Floats
    from_safe: Booleans


@dataclass(frozen=True)
class PolicyPair:
    """A safe and an optimized policy that propose actions.

    If it is `strict`, an action of the optimized policy that has probability 0 under the safe one
    is an error. Otherwise such actions are only scored, and clip never accepts them.
    """

    safe: Policy
    optimized: Policy
    strict: bool = True

    def propose(
        self, safe_weight: float, contexts: Contexts, rng: np.random.Generator
    ) -> ScoredDraws:
        """Draw one action per context from w·safe + (1 − w)·optimized and score it under both."""
        count = length(contexts)
        if safe_weight in (0.0, 1.0):
            from_safe = np.full(count, safe_weight == 1.0)
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
        """Draw one action per context from the policy chosen for it."""
        rows = {"safe": np.flatnonzero(from_safe), "optimized": np.flatnonzero(~from_safe)}
        drawn = policy_calls.concatenate_actions(
            [
                policy_calls.draw(name, getattr(self, name), take(contexts, each), rng)
                for name, each in rows.items()
                if len(each)
            ]
        )
        actions = np.empty_like(drawn)
        actions[np.concatenate(list(rows.values()))] = drawn
        return actions
